// The state of a run for Prometheus, which asks for it over HTTP: text format 0.0.4 at /metrics, on
// this machine's loopback address alone.
//
// Training never waits for a client: it leaves a text behind a lock that is held for the copy of a
// pointer, and a thread of its own serves what was left last.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/train/report.hpp"

namespace dcp::train {

// A run so far. Sums over iterations are counters (`dcp_tokens_total`), the last iteration's
// numbers gauges (`dcp_loss`: the keys of metrics.jsonl behind `dcp_`).
class PrometheusMetrics {
public:
    PrometheusMetrics(std::string planner, int num_ranks);
    void add(const IterationReport& report);
    std::string text() const;

private:
    std::string planner_;
    int num_ranks_;
    std::optional<IterationReport> last_;
    std::optional<double> validation_loss_;  // of the last iteration that has one
    std::int64_t iterations_ = 0;
    std::int64_t tokens_ = 0;
    std::int64_t sequences_ = 0;
    std::map<int, std::int64_t> steps_by_degree_;
    double seconds_ = 0;
    double plan_exposed_seconds_ = 0;
    double sent_bytes_ = 0;
};

class PrometheusServer {
public:
    // Listens on 127.0.0.1; port 0: one that is free. ConfigError where the port cannot be had.
    explicit PrometheusServer(std::int64_t port);
    ~PrometheusServer();  // within milliseconds, whatever clients do
    PrometheusServer(const PrometheusServer&) = delete;
    PrometheusServer& operator=(const PrometheusServer&) = delete;

    int port() const { return port_; }
    void publish(std::string text);  // from now on

private:
    void listen_on(std::int64_t port);
    void serve();
    void answer(int client) const;
    std::string response_to(std::string_view request) const;
    bool wait_for(int descriptor, short events, int milliseconds) const;

    int listener_ = -1;
    int port_ = 0;
    int wake_ = -1;  // readable when the thread shall end
    mutable std::mutex mutex_;
    std::shared_ptr<const std::string> text_;
    std::thread thread_;
};

}  // namespace dcp::train
