// The HTTP side of prometheus.hpp: one request a connection, one connection at a time. A client has
// two seconds; who is slower is cut off, and the end of the run waits for nobody.
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/errors.hpp"
#include "core/train/prometheus.hpp"

namespace dcp::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestExchange = std::chrono::seconds(2);
constexpr std::size_t kLongestRequest = 8192;  // bytes
constexpr int kBacklog = 16;

int milliseconds_until(Clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

std::string http(std::string_view status, std::string_view body, bool with_body = true) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
        status, body.size(), with_body ? body : "");
}

[[noreturn]] void fail_port(std::int64_t port) {
    const std::error_code reason(errno, std::generic_category());
    throw ConfigError(
        fmt::format("monitor.prometheus_port is {}, and that port of 127.0.0.1 cannot "
                    "be had: {}: choose another, 0 for one that is free, or off",
                    port, reason.message()));
}

// A thread inherits what its maker blocks: signals are for the thread that trains.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

}  // namespace

PrometheusServer::PrometheusServer(std::int64_t port)
    : text_(std::make_shared<const std::string>()) {
    listen_on(port);
    wake_ = ::eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) {
        const int reason = errno;
        ::close(listener_);
        errno = reason;
        fail_port(port);
    }
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { serve(); });
}

void PrometheusServer::listen_on(std::int64_t port) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t address_bytes = sizeof(address);
    // Reuse: the port of a run that has just ended is free, whatever its last connections wait for.
    if (listener_ < 0 ||
        ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        ::bind(listener_, generic, address_bytes) != 0 || ::listen(listener_, kBacklog) != 0 ||
        ::getsockname(listener_, generic, &address_bytes) != 0) {
        const int reason = errno;
        if (listener_ >= 0) {
            ::close(listener_);
        }
        errno = reason;
        fail_port(port);
    }
    port_ = ntohs(address.sin_port);
}

PrometheusServer::~PrometheusServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));  // cannot be full
    thread_.join();
    ::close(listener_);
    ::close(wake_);
}

void PrometheusServer::publish(std::string text) {
    auto next = std::make_shared<const std::string>(std::move(text));
    const std::lock_guard lock(mutex_);
    text_.swap(next);
}

// False when the time is up or the thread shall end.
bool PrometheusServer::wait_for(int descriptor, short events, int milliseconds) const {
    std::array<pollfd, 2> waiting{{{descriptor, events, 0}, {wake_, POLLIN, 0}}};
    const int ready = ::poll(waiting.data(), waiting.size(), milliseconds);
    return ready > 0 && waiting[1].revents == 0;
}

void PrometheusServer::serve() {
    constexpr int kForEver = -1;
    while (wait_for(listener_, POLLIN, kForEver)) {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0) {
            answer(client);
            ::close(client);
        } else if (errno != EAGAIN && errno != ECONNABORTED) {
            // No descriptor is left, or no memory: nothing to do but to try again a little later.
            wait_for(-1, 0, 100);
        }
    }
}

void PrometheusServer::answer(int client) const {
    const Clock::time_point end = Clock::now() + kLongestExchange;
    std::string request;
    std::array<char, 1024> block{};
    while (request.find("\r\n\r\n") == std::string::npos && request.size() < kLongestRequest) {
        if (!wait_for(client, POLLIN, milliseconds_until(end))) {
            return;
        }
        const ssize_t count = ::recv(client, block.data(), block.size(), 0);
        if (count <= 0) {
            return;
        }
        request.append(block.data(), static_cast<std::size_t>(count));
    }
    const std::string response = response_to(request);
    std::string_view left = response;
    while (!left.empty() && wait_for(client, POLLOUT, milliseconds_until(end))) {
        const ssize_t count = ::send(client, left.data(), left.size(), MSG_NOSIGNAL);
        if (count <= 0) {
            return;
        }
        left.remove_prefix(static_cast<std::size_t>(count));
    }
}

std::string PrometheusServer::response_to(std::string_view request) const {
    const std::string_view line = request.substr(0, request.find("\r\n"));
    const std::size_t space = line.find(' ');
    const std::size_t second = line.find(' ', space + 1);
    if (request.find("\r\n\r\n") == std::string_view::npos || space == std::string_view::npos ||
        second == std::string_view::npos || line.substr(second + 1).rfind("HTTP/1.", 0) != 0) {
        return http("400 Bad Request", "not a request\n");
    }
    const std::string_view method = line.substr(0, space);
    std::string_view path = line.substr(space + 1, second - space - 1);
    path = path.substr(0, path.find('?'));
    if (method != "GET" && method != "HEAD") {
        return http("405 Method Not Allowed", "only GET and HEAD\n");
    }
    const bool with_body = method == "GET";
    if (path != "/metrics") {
        return http("404 Not Found", "only /metrics is here\n", with_body);
    }
    std::shared_ptr<const std::string> text;
    {
        const std::lock_guard lock(mutex_);
        text = text_;
    }
    return http("200 OK", *text, with_body);
}

}  // namespace dcp::train
