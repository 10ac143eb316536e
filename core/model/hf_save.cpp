// Writing a weights folder: all files into a folder beside it, then one rename.
#include <array>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/base/atomic_file.hpp"
#include "core/base/errors.hpp"
#include "core/model/hf_layout.hpp"
#include "core/model/parameters.hpp"

namespace dcp::model {

namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexFile = "model.safetensors.index.json";

// Tensors of one file each; a tensor larger than the limit has a file of its own.
std::vector<std::vector<TensorSpec>> split_into_shards(const std::vector<TensorSpec>& specs,
                                                       const SaveOptions& options) {
    std::vector<std::vector<TensorSpec>> shards(1);
    std::int64_t filled = 0;
    for (const TensorSpec& spec : specs) {
        const std::int64_t bytes =
            spec.shape.num_elems() * static_cast<std::int64_t>(size_bytes(options.stored));
        if (filled > 0 && filled + bytes > options.shard_bytes) {
            shards.emplace_back();
            filled = 0;
        }
        shards.back().push_back(spec);
        filled += bytes;
    }
    return shards;
}

void write_shards(const fs::path& folder,
                  const std::vector<TensorSpec>& specs,
                  const TensorSource& source,
                  const SaveOptions& options) {
    const auto shards = split_into_shards(specs, options);
    if (shards.size() == 1) {
        write_safetensors(folder / "model.safetensors", specs, options.stored, source);
        return;
    }
    nlohmann::ordered_json weight_map = nlohmann::ordered_json::object();
    std::int64_t elems = 0;
    for (std::size_t index = 0; index < shards.size(); ++index) {
        const std::string file =
            fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, shards.size());
        write_safetensors(folder / file, shards[index], options.stored, source);
        for (const TensorSpec& spec : shards[index]) {
            weight_map[spec.name] = file;
            elems += spec.shape.num_elems();
        }
    }
    const std::int64_t bytes = elems * static_cast<std::int64_t>(size_bytes(options.stored));
    nlohmann::ordered_json index;
    index["metadata"] = {{"total_parameters", elems}, {"total_size", bytes}};
    index["weight_map"] = std::move(weight_map);
    write_file_atomically(folder / kIndexFile, index.dump(2) + "\n");
}

// True for a folder that may be replaced: it holds nothing, or weights and nothing else.
bool is_ours_to_replace(const fs::path& folder) {
    bool has_config = fs::is_empty(folder);
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        if (name == "config.json") {
            has_config = true;
        } else if (name != kIndexFile && entry.path().extension() != ".safetensors") {
            return false;
        }
    }
    return has_config;
}

void check_place(const fs::path& folder) {
    if (fs::exists(folder) && !(fs::is_directory(folder) && is_ours_to_replace(folder))) {
        throw ConfigError(
            fmt::format("{}: exists and holds more than weights, so it will not be replaced; name "
                        "another folder",
                        folder.string()));
    }
}

// Puts `fresh` in the place of `folder`; at every moment the name leads to a whole folder.
void replace(const fs::path& fresh, const fs::path& folder) {
    if (!fs::exists(folder)) {
        fs::rename(fresh, folder);
    } else if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) ==
               0) {
        fs::remove_all(fresh);
    } else {  // a file system that cannot exchange: the name is free for a moment
        fs::remove_all(folder);
        fs::rename(fresh, folder);
    }
    sync_folder(folder.parent_path().string());
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const config::ModelConfig& config) {
    std::vector<TensorSpec> specs;
    const ParameterLayout layout(config);
    for (const ParameterSlot& slot : layout.slots()) {
        specs.push_back({slot.name, slot.shape});
    }
    return specs;
}

void save_weights(const std::string& folder,
                  const FolderConfig& config,
                  const TensorSource& source,
                  const SaveOptions& options) {
    // "a/b/" names the folder a/b, whose parent must be a.
    const fs::path place =
        fs::path(folder).has_filename() ? fs::path(folder) : fs::path(folder).parent_path();
    check_place(place);
    const fs::path fresh = fmt::format("{}.partial.{}", place.string(), ::getpid());
    try {
        fs::create_directories(fresh);
        write_shards(fresh, tensor_specs(config.model), source, options);
        write_file_atomically(fresh / "config.json", to_hf_config(config, options.stored));
        replace(fresh, place);
    } catch (const fs::filesystem_error& error) {
        std::error_code ignored;
        fs::remove_all(fresh, ignored);
        throw IoError(
            fmt::format("{}: cannot write the weights folder: {}", folder, error.code().message()));
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(fresh, ignored);
        throw;
    }
}

}  // namespace dcp::model
