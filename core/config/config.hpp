// The configuration of `dcp train`, as plain structs with their defaults. One struct per section of
// the YAML file; keys have the names of the fields (docs/configuration.md lists them with ranges).
// Nothing here reads files: reader.hpp does.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dcp::config {

// A value that `auto` leaves to the program; the resolved choice is printed and written into the
// run folder.
inline constexpr std::int64_t kAutomatic = -1;

enum class NormKind : std::uint8_t { kRmsNorm, kLayerNorm };
enum class Activation : std::uint8_t { kSwiGlu, kGelu };
enum class Positions : std::uint8_t { kRope, kNone };

struct ModelConfig {
    std::string kind = "transformer-1d";
    std::int64_t hidden = 256;
    std::int64_t layers = 6;
    std::int64_t heads = 8;
    std::int64_t kv_heads = 8;   // default: heads
    std::int64_t head_dim = 32;  // default: hidden / heads
    std::int64_t ffn = 704;
    std::int64_t vocab = 257;  // bytes 0..255 and the end-of-document token 256
    NormKind norm = NormKind::kRmsNorm;
    double norm_eps = 1e-5;
    Activation activation = Activation::kSwiGlu;
    Positions positions = Positions::kRope;
    double rope_theta = 10000;
    bool causal = true;
    bool tie_embeddings = false;
    std::string init_from;  // a weights folder; empty: random from run.seed
    std::int64_t recompute_layers =
        0;  // the first so many layers keep only their input and compute the rest again
    // transformer-2d: the text that every sequence attends to. Its `layers` are pairs of blocks.
    std::int64_t text_tokens = 0;
    std::int64_t text_width = 0;

    bool has_two_dimensions() const { return kind == "transformer-2d"; }
    bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
    std::vector<std::string> train;
    std::vector<std::string> validation;
    std::int64_t validation_documents = 0;
    std::int64_t max_tokens = 8192;
    bool shuffle = true;
};

struct BatchConfig {
    std::int64_t sequences = 0;  // exactly one of the two is positive
    std::int64_t tokens = 0;
    std::string mode = "fixed";
    std::int64_t micro_batch_tokens = kAutomatic;  // auto: data.max_tokens or less
};

struct OptimizerConfig {
    std::string name = "adamw";
    double lr = 3e-4;
    std::array<double, 2> betas{0.9, 0.95};
    double eps = 1e-8;
    double weight_decay = 0.1;
    double clip = 1.0;  // 0: off
};

enum class ScheduleKind : std::uint8_t { kConstant, kLinear, kCosine, kWsd };

struct ScheduleConfig {
    ScheduleKind kind = ScheduleKind::kCosine;
    std::int64_t warmup = 20;  // iterations
    double final = 0.1;        // learning rate of the last iteration over optimizer.lr
    double decay_share = 0.2;  // wsd: the last share of the iterations that decays
};

enum class LossNormalization : std::uint8_t { kToken, kSample };
enum class Device : std::uint8_t { kAuto, kCpu, kCuda };
enum class ComputeType : std::uint8_t { kAuto, kFloat32, kBFloat16 };

struct PlannerConfig {
    std::string name = "dcp";
    std::string degrees = "any";
    std::string recompute = "auto";
    std::string step_mode = "independent";
    std::string cost;
    bool correct = true;
};

struct MemoryConfig {
    std::int64_t budget = kAutomatic;  // bytes
};

struct RunConfig {
    std::int64_t iterations = 200;
    std::int64_t seed = 1;
    Device device = Device::kAuto;
    ComputeType dtype = ComputeType::kAuto;
    std::int64_t threads = kAutomatic;
    std::string folder = "runs/first";
    bool log_samples = false;
    std::int64_t validate_every = 50;  // 0: only at the end
    LossNormalization loss_normalization = LossNormalization::kToken;
};

inline constexpr std::int64_t kOff = -1;

// Besides the console and metrics.jsonl, which every run has.
struct MonitorConfig {
    bool log_steps = false;
    bool tensorboard = false;
    std::int64_t prometheus_port = kOff;  // of 127.0.0.1; 0: one that is free
    std::vector<std::int64_t> trace_iterations;
};

// Config::profile beside the path of a file.
inline constexpr const char* kAutoProfile = "auto";
inline constexpr const char* kNoProfile = "off";

struct Config {
    ModelConfig model;
    DataConfig data;
    BatchConfig batch;
    OptimizerConfig optimizer;
    ScheduleConfig schedule;
    PlannerConfig planner;
    MemoryConfig memory;
    RunConfig run;
    MonitorConfig monitor;
    std::string profile = kAutoProfile;  // or kNoProfile, or a file
};

}  // namespace dcp::config
