// `dcp-profile-1`: what one layer was measured to cost, as JSON. docs/profile.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/strategy.hpp"

namespace dcp::plan {

// The slowest link inside a group.
enum class LinkClass : std::uint8_t { kNone, kNode, kNetwork };

LinkClass link_class(int degree, int ranks_per_node);

// One layer, on the slowest rank of a group.
struct ProfilePoint {
    std::int64_t tokens = 0;  // of the micro-batch
    double squared_tokens = 0;
    Strategy strategy;
    LinkClass link = LinkClass::kNone;
    double forward_seconds = 0;
    double backward_seconds = 0;
    double recompute_seconds = 0;  // what recomputing adds to the backward pass
    // Of a rank.
    double kept_bytes = 0;        // by a layer that keeps everything
    double checkpoint_bytes = 0;  // by a layer that recomputes
    double working_bytes = 0;     // while the layer is at work, beside what it keeps

    bool operator==(const ProfilePoint&) const = default;
};

// How fast the machine was while the points were measured: seconds of one small micro-batch of so
// many tokens, on a typical rank alone. The same work tells later how fast the machine is then.
struct ProfileReference {
    std::int64_t tokens = 0;  // 0: not known
    double seconds = 0;

    bool operator==(const ProfileReference&) const = default;
};

struct Profile {
    std::string name;
    std::map<std::string, std::string> measured;  // model, machine, type, program: to compare
    int layers = 1;
    Heads heads;            // none where the model shards frames
    int dimensions = 1;     // of its sequences
    double text_pairs = 0;  // two dimensions: squared tokens that a sequence adds by its text
    int ranks_per_node = 1;
    bool may_recompute = true;

    double budget_bytes = 0;  // of a rank
    double replicated_bytes = 0;
    double sharded_bytes = 0;  // over all ranks together

    // Of a micro-batch beside its layers: embedding, output layer, loss, loading.
    double fixed_seconds = 0;
    double token_seconds = 0;  // for each token of a rank
    double token_bytes = 0;

    double reduction_seconds = 0;  // once an iteration
    double optimizer_seconds = 0;

    ProfileReference reference;
    std::vector<double> speeds;  // of every rank, 1 = as measured; empty: all 1
    std::vector<ProfilePoint> points;

    bool operator==(const Profile&) const = default;
};

// Adds points; one of the same micro-batch, strategy and links is replaced.
void add_points(Profile& profile, std::span<const ProfilePoint> points);

// One line of JSON a point, so that profiles can be read and compared by eye.
std::string to_json(const Profile& profile);

// ConfigError names the key that is missing, unknown, of the wrong type or out of range.
Profile parse_profile(std::string_view text);

inline constexpr const char* kProfileFormat = "dcp-profile-1";

}  // namespace dcp::plan
