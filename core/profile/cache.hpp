// Profiles in files: one that the user names, and the folder where those that were measured at the
// start of a run are kept for the next.
#pragma once

#include <optional>
#include <string>

#include "core/plan/profile.hpp"
#include "core/profile/key.hpp"

namespace dcp::profile {

// ${DCP_PROFILE_DIR}, else ${XDG_CACHE_HOME}/dcp/profiles, else ${HOME}/.cache/dcp/profiles; empty
// where none of them is set.
std::string cache_folder();

struct Stored {
    plan::Profile profile;
    std::string path;
    double age_seconds = 0;
};

// The profile in `path`, for this key. ConfigError names the file and what is wrong with it, or in
// what its key differs.
Stored load(const std::string& path, const Key& key);

// The profile of this key in the cache; nothing where there is none. A file that cannot be used is
// none, and `problem` says why.
std::optional<Stored> find(const std::string& folder, const Key& key, std::string& problem);

// Writes whole files only and makes folders. IoError, or ConfigError for what is no place for a
// file.
void store(const std::string& path, const plan::Profile& profile);

}  // namespace dcp::profile
