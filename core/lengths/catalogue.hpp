// The distributions that have a name.
#pragma once

#include <functional>
#include <vector>

#include "core/lengths/keys.hpp"

namespace dcp::lengths {

struct Named {
    DistributionInfo info;
    std::function<DistributionPtr(Keys&)> make;
};

const std::vector<Named>& catalogue();

}  // namespace dcp::lengths
