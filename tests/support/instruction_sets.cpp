#include "tests/support/instruction_sets.hpp"

// Before Highway's own header, as in the loops.
#include "kernels/cpu/hwy_targets.hpp"

// clang-format off
#include "hwy/targets.h"
// clang-format on

namespace dcp::test {

std::vector<std::int64_t> instruction_sets() {
    return hwy::SupportedAndGeneratedTargets();
}

std::string instruction_set_name(std::int64_t instruction_set) {
    return hwy::TargetName(instruction_set);
}

UseInstructionSet::UseInstructionSet(std::int64_t instruction_set) {
    hwy::SetSupportedTargetsForTest(instruction_set);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

UseInstructionSet::~UseInstructionSet() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace dcp::test
