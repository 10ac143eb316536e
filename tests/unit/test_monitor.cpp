// What a run shows of itself besides its metrics: event files byte for byte, the Prometheus text
// and its server, traces, errors of predictions.
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "tests/support/dataset_files.hpp"
#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/crc32c.hpp"
#include "core/base/errors.hpp"
#include "core/train/measures.hpp"
#include "core/train/prediction.hpp"
#include "core/train/prometheus.hpp"
#include "core/train/tensorboard.hpp"
#include "core/train/trace.hpp"

using namespace dcp;
using namespace dcp::train;

namespace {

std::string bytes(std::initializer_list<int> values) {
    std::string text;
    for (const int value : values) {
        text += static_cast<char>(value);
    }
    return text;
}

// Two ranks: a step that both share, then one of each. Rank 1 is done first.
IterationReport two_ranks() {
    IterationReport report;
    report.iteration = 5;
    report.loss = 2;
    report.tokens = 60;
    report.planner = "dcp";
    report.num_ranks = 2;
    report.sequences = {7, 8, 9};
    report.lengths = {30, 20, 10};
    report.seconds = 12;
    report.makespan_seconds = 10;
    plan::Plan plan;
    plan.steps = {{.world_ranks = {0, 1}, .sequences = {0}, .strategy = {.ulysses = 2, .ring = 1}},
                  {.world_ranks = {0}, .sequences = {1}, .recompute_layers = 3},
                  {.world_ranks = {1}, .sequences = {2}}};
    const std::array<double, 3> start{0, 5, 5};
    const std::array<double, 3> seconds{5, 4, 2};
    for (std::size_t index = 0; index < plan.steps.size(); ++index) {
        plan.steps[index].start_seconds = start[index];
        plan.steps[index].seconds = seconds[index];
        plan.steps[index].peak_bytes = 110;
    }
    plan.makespan_seconds = 9;
    plan.lower_bound_seconds = 8;
    report.read_plan(plan);
    report.steps = {{.step = 0,
                     .rank = 0,
                     .start_seconds = 0,
                     .wait_seconds = 1,
                     .communication_seconds = 1,
                     .seconds = 4,
                     .peak_bytes = 100},
                    {.step = 1, .rank = 0, .start_seconds = 5, .seconds = 5, .peak_bytes = 110},
                    {.step = 0,
                     .rank = 1,
                     .start_seconds = 1,
                     .communication_seconds = 2,
                     .seconds = 4,
                     .peak_bytes = 90},
                    {.step = 2, .rank = 1, .start_seconds = 5, .seconds = 2, .peak_bytes = 120}};
    report.imbalance_ratio = 0.25;
    return report;
}

class Client {
public:
    explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    }
    ~Client() { ::close(socket_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void say(const std::string& text) const {
        REQUIRE(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(text.size()));
    }
    std::string hear() const {  // until the server closes
        std::string answer;
        std::array<char, 4096> block{};
        for (ssize_t count = 0; (count = ::recv(socket_, block.data(), block.size(), 0)) > 0;) {
            answer.append(block.data(), static_cast<std::size_t>(count));
        }
        return answer;
    }

private:
    int socket_;
};

std::string ask(int port, const std::string& request) {
    const Client client(port);
    client.say(request);
    return client.hear();
}

}  // namespace

TEST_CASE("CRC-32C", "[unit][monitor]") {
    CHECK(crc32c("") == 0);
    CHECK(crc32c("123456789") == 0xE3069283);
    CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4
    CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
}

TEST_CASE("event files, byte for byte", "[unit][monitor]") {
    // 1.5 as a double: 00 .. F8 3F; field 1 of type 1 has the key 09, field 3 of type 2 the key 1A.
    const std::string version =
        bytes({0x09, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0x1A, 13}) + "brain.Event:2";
    CHECK(version_event(1.5) == version);
    // Step 300 is AC 02; a summary of 12 bytes with a value of 10: tag "a/b", 2.0 as a float.
    CHECK(scalar_event(1.5, 300, std::array{Scalar{"a/b", 2.0}}) ==
          bytes({0x09, 0,    0,  0,    0, 0,   0,   0xF8, 0x3F, 0x10, 0xAC, 0x02, 0x2A,
                 12,   0x0A, 10, 0x0A, 3, 'a', '/', 'b',  0x15, 0,    0,    0,    0x40}));
    // The masked checksums by the definition: ((c >> 15) | (c << 17)) + 0xA282EAD8.
    const auto masked = [](const std::string& text) {
        const std::uint32_t crc = crc32c(text);
        const std::uint32_t mask = ((crc >> 15) | (crc << 17)) + 0xA282EAD8;
        return bytes({static_cast<int>(mask & 0xFF), static_cast<int>(mask >> 8 & 0xFF),
                      static_cast<int>(mask >> 16 & 0xFF), static_cast<int>(mask >> 24)});
    };
    const std::string length = bytes({24, 0, 0, 0, 0, 0, 0, 0});
    CHECK(frame_record(version) == length + masked(length) + version + masked(version));

    const test::DatasetFolder folder;
    const std::string path = folder / "events";
    {
        EventFile file(path);
        file.append(3, std::array{Scalar{"x", 1}, Scalar{"y", 2}});
        CHECK(test::read_file(path).size() > 12 + 24 + 4 + 12 + 4);  // while it is open
    }
    CHECK(event_file_name().rfind("events.out.tfevents.", 0) == 0);
}

TEST_CASE("shares of ranks, gap and errors", "[unit][monitor]") {
    const IterationReport report = two_ranks();
    const std::vector<RankShares> shares = rank_shares(report);
    REQUIRE(shares.size() == 2);
    CHECK(shares[0].computing == Approx(0.8));
    CHECK(shares[0].communicating == Approx(0.1));
    CHECK(shares[0].waiting == Approx(0.1));
    CHECK(shares[1].computing == Approx(0.4));
    CHECK(shares[1].communicating == Approx(0.2));
    CHECK(shares[1].waiting == Approx(0.4));
    CHECK(over_ranks(shares, &RankShares::computing).mean == Approx(0.6));
    CHECK(over_ranks(shares, &RankShares::computing).variance == Approx(0.04));

    const StepErrors errors = step_errors(report);
    REQUIRE(errors.seconds.size() == 3);
    CHECK(errors.seconds[0] == Approx(0.25));  // 5 predicted, 4 on both ranks
    CHECK(errors.seconds[1] == Approx(-0.2));
    CHECK(errors.seconds[2] == Approx(0).margin(1e-12));
    CHECK(errors.bytes[0] == Approx(0.1));
    CHECK(errors.bytes[2] == Approx(-10.0 / 120));
    CHECK(absolute_quantile(errors.seconds, 0.5) == Approx(0.2));
    CHECK(absolute_quantile(errors.seconds, 0.95) == Approx(0.25));

    for (const Measure& measure : measures(report)) {
        INFO(measure.key);
        CHECK(std::isfinite(measure.value));
        if (measure.key == "bound_gap") {
            CHECK(measure.value == Approx(0.25));
        } else if (measure.key == "predicted_bound_gap") {
            CHECK(measure.value == Approx(0.125));
        } else if (measure.key == "makespan_error") {
            CHECK(measure.value == Approx(-0.1));
        }
    }
}

TEST_CASE("errors of a run are counted in classes", "[unit][monitor]") {
    ErrorCounts counts;
    CHECK(counts.quantile(0.5) == 0);
    for (int index = 0; index < 1000; ++index) {
        counts.add((index % 2 == 0 ? 1 : -1) * (index + 0.5) / 1000);
    }
    CHECK(counts.quantile(0.5) == Approx(0.4995));
    CHECK(counts.quantile(0.95) == Approx(0.9495));
    counts.add(1e9);
    CHECK(counts.quantile(1) == Approx(9.9995));

    PredictionSummary summary;
    CHECK(summary.empty());
    summary.add(two_ranks());
    const std::string text = summary.to_string();
    CHECK(text.find("3 steps: seconds predicted to 20.1 % (median), 25.1 % (p95)") == 0);
    CHECK(text.find("1 needed more bytes than predicted") != std::string::npos);
}

TEST_CASE("what correction is worth is said where there is one", "[unit][monitor]") {
    IterationReport report = two_ranks();
    // Known whether plans are made with corrections or not; measured were 4, 5 and 2.
    report.correction.uncorrected_step_seconds = {8, 10, 3};
    const auto said = [&] {
        PredictionSummary summary;
        summary.add(report);
        return summary.to_string();
    };
    CHECK(step_errors(report).uncorrected_seconds.empty());
    CHECK(said().find("(p95); bytes to") != std::string::npos);
    report.correction.is_on = true;
    CHECK(step_errors(report).uncorrected_seconds == std::vector<double>{1, 1, 0.5});
    CHECK(said().find("(p95), without correction 100.") != std::string::npos);
}

TEST_CASE("the Prometheus text", "[unit][monitor]") {
    PrometheusMetrics metrics("dcp", 2);
    CHECK(metrics.text().find("dcp_iterations_total 0\n") != std::string::npos);
    CHECK(metrics.text().find("dcp_loss") == std::string::npos);
    IterationReport report = two_ranks();
    report.validation_loss = 3.5;
    metrics.add(report);
    report.validation_loss.reset();
    metrics.add(report);
    const std::string text = metrics.text();
    for (const char* line :
         {"# TYPE dcp_iterations_total counter\ndcp_iterations_total 2\n", "dcp_tokens_total 120\n",
          "dcp_run_info{planner=\"dcp\",ranks=\"2\"} 1\n",
          "# TYPE dcp_steps_total counter\ndcp_steps_total{degree=\"1\"} 4\n"
          "dcp_steps_total{degree=\"2\"} 2\n",
          "# TYPE dcp_loss gauge\ndcp_loss 2\n", "dcp_validation_loss 3.5\n",
          "dcp_bound_gap 0.25\n"}) {
        INFO(line);
        CHECK(text.find(line) != std::string::npos);
    }
    CHECK(text.back() == '\n');
    CHECK(text.find("dcp_rank_busy_fraction{rank=\"1\"} 0.4") != std::string::npos);
}

TEST_CASE("the Prometheus server", "[unit][monitor]") {
    PrometheusServer server(0);
    REQUIRE(server.port() > 0);
    CHECK_THROWS_WITH(PrometheusServer(server.port()),
                      Catch::Contains("monitor.prometheus_port") && Catch::Contains("in use"));
    CHECK_THROWS_AS(PrometheusServer(server.port()), ConfigError);
    server.publish("a 1\n");
    const std::string answer = ask(server.port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(answer.find("HTTP/1.1 200 OK\r\n") == 0);
    CHECK(answer.find("Content-Type: text/plain; version=0.0.4") != std::string::npos);
    CHECK(answer.find("Content-Length: 4\r\n") != std::string::npos);
    CHECK(answer.substr(answer.size() - 8) == "\r\n\r\na 1\n");
    server.publish(std::string(1 << 20, 'b'));  // more than a socket takes at once
    CHECK(ask(server.port(), "GET /metrics?x=1 HTTP/1.0\r\n\r\n").size() > 1 << 20);
    CHECK(ask(server.port(), "GET / HTTP/1.1\r\n\r\n").find("HTTP/1.1 404") == 0);
    CHECK(ask(server.port(), "POST /metrics HTTP/1.1\r\n\r\n").find("HTTP/1.1 405") == 0);
    CHECK(ask(server.port(), "nonsense\r\n\r\n").find("HTTP/1.1 400") == 0);
    CHECK(ask(server.port(), std::string(9000, 'x')).find("HTTP/1.1 400") == 0);
    { const Client leaves_at_once(server.port()); }
    CHECK(ask(server.port(), "HEAD /metrics HTTP/1.1\r\n\r\n").find("\r\n\r\nb") ==
          std::string::npos);
}

TEST_CASE("a client that says nothing holds up neither training nor the end", "[unit][monitor]") {
    auto server = std::make_unique<PrometheusServer>(0);
    const Client silent(server->port());
    silent.say("GET /met");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the server has it by now
    const auto start = std::chrono::steady_clock::now();
    server->publish("a 1\n");
    server.reset();
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500));
}

TEST_CASE("traces", "[unit][monitor]") {
    CHECK(trace_file_name(5) == "trace-000005.json");
    CHECK(trace_file_name(12345678) == "trace-12345678.json");
    const std::string trace = to_trace(two_ranks());
    // The wait of a step that ranks share, then the step, its computing, its communication.
    const auto has = [&](const std::string& text) {
        INFO(text);
        CHECK(trace.find(text) != std::string::npos);
    };
    has(R"({"name":"SP 2","cat":"plan","ph":"X","pid":1,"tid":0,"ts":0.0,"dur":5000000.0,)");
    has(R"({"name":"waiting","cat":"waiting","ph":"X","pid":0,"tid":1,"ts":0.0,"dur":1000000.0,)");
    has(R"({"name":"SP 2","cat":"reality","ph":"X","pid":0,"tid":1,"ts":1000000.0,"dur":4000000.0,)");
    has(R"("cat":"computing","ph":"X","pid":0,"tid":1,"ts":1000000.0,"dur":3000000.0,)");
    has(R"("cat":"communication","ph":"X","pid":0,"tid":1,"ts":4000000.0,"dur":1000000.0,)");
    has(R"("tokens":20,"degree":1,"ulysses":1,"ring":1,"recompute_layers":3,"predicted_seconds":4.0)");
    IterationReport alone = two_ranks();
    alone.predicted_makespan_seconds = 0;
    CHECK(to_trace(alone).find("\"plan\"") == std::string::npos);
}
