// What a profile was measured with. Profiles hold only where all of it is the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/message_library.hpp"
#include "core/base/dtype.hpp"
#include "core/config/config.hpp"
#include "core/plan/strategy.hpp"

namespace dcp::profile {

// The map `measured` of a profile.
using Key = std::map<std::string, std::string>;

struct Setting {
    const config::ModelConfig& model;
    DType compute = DType::kFloat32;
    int threads = 1;
    std::vector<plan::Strategy> strategies;
    std::string topology;     // "2 ranks on 1 node: 0-1"
    std::string device;       // of all nodes
    bool recomputes = false;  // whether recomputation was timed
    std::string messages = comm::message_library();
};

Key make_key(const Setting& setting);

// "Intel(R) Xeon(R) ..., 2 processors" of this machine.
std::string describe_device();

// "threads: 2 in the profile, 1 here; ..." for all that differs; empty where nothing does.
std::string describe_difference(const Key& profile, const Key& here);

// The same for equal keys, and for no others.
std::string file_name(const Key& key);

}  // namespace dcp::profile
