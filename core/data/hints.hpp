// What to tell a person whose path does not exist or is no dataset.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.hpp"

namespace dcp::data {

// Insertions, deletions, replacements and exchanges of neighbours that turn one into the other.
int edit_distance(std::string_view a, std::string_view b);

// Up to three of `names`, the closest first; those that differ in more than half are left out.
std::vector<std::string> nearest_names(std::string_view wanted, std::vector<std::string> names);

// "there is no folder data/x", or the names in its folder that are nearest, or that it has none.
// With `datasets`, names are those of datasets (.idx and .bin taken off), otherwise of all entries.
std::string missing_path_hint(const std::string& path, bool datasets);

// What a file is that is neither a Megatron dataset nor an llm.c shard, and what to do about it; to
// follow "PATH: ".
std::string describe_non_dataset(const MappedFile& file);

}  // namespace dcp::data
