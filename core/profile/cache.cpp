#include "core/profile/cache.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/config/cost_file.hpp"

namespace dcp::profile {

namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
    return value == nullptr ? "" : value;
}

double age_of(const std::string& path) {
    std::error_code error;
    const fs::file_time_type written = fs::last_write_time(path, error);
    return error
               ? 0
               : std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

}  // namespace

std::string cache_folder() {
    if (const std::string chosen = variable("DCP_PROFILE_DIR"); !chosen.empty()) {
        return chosen;
    }
    if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
        return cache + "/dcp/profiles";
    }
    const std::string home = variable("HOME");
    return home.empty() ? "" : home + "/.cache/dcp/profiles";
}

Stored load(const std::string& path, const Key& key) {
    Stored stored{.profile = {}, .path = path, .age_seconds = age_of(path)};
    const std::string text = config::read_text_file(path, "profile");
    try {
        stored.profile = plan::parse_profile(text);
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("{}: {}", path, error.what()));
    }
    if (const std::string difference = describe_difference(stored.profile.measured, key);
        !difference.empty()) {
        throw ConfigError(fmt::format("{}: was measured for something else: {}", path, difference));
    }
    return stored;
}

std::optional<Stored> find(const std::string& folder, const Key& key, std::string& problem) {
    const std::string path = fmt::format("{}/{}", folder, file_name(key));
    std::error_code error;
    if (folder.empty() || !fs::exists(path, error)) {
        return std::nullopt;
    }
    try {
        return load(path, key);
    } catch (const Error& unusable) {
        problem = unusable.what();
        return std::nullopt;
    }
}

void store(const std::string& path, const plan::Profile& profile) {
    std::error_code error;
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
        fs::create_directories(folder, error);
        if (error) {
            throw IoError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
        }
    }
    write_file_atomically(path, plan::to_json(profile));
}

}  // namespace dcp::profile
