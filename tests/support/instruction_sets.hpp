// Runs the vector loops as an older processor would: every instruction set that they are compiled
// for and that this processor has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dcp::test {

// Highway's numbers of the sets, the best one first.
std::vector<std::int64_t> instruction_sets();
std::string instruction_set_name(std::int64_t instruction_set);

// While it lives, the loops use this set; then the best one again. Not for several threads.
class UseInstructionSet {
public:
    explicit UseInstructionSet(std::int64_t instruction_set);
    ~UseInstructionSet();
    UseInstructionSet(const UseInstructionSet&) = delete;
    UseInstructionSet& operator=(const UseInstructionSet&) = delete;
    UseInstructionSet(UseInstructionSet&&) = delete;
    UseInstructionSet& operator=(UseInstructionSet&&) = delete;
};

}  // namespace dcp::test
