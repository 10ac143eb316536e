#include "core/data/synth.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/data/dataset_writer.hpp"
#include "core/data/file_list.hpp"
#include "core/data/import.hpp"
#include "core/data/output_check.hpp"
#include "core/data/text_reader.hpp"
#include "core/data/token_store.hpp"

namespace dcp::data {
namespace {

// Text without an end: pieces of documents, from the start again when all are through.
class Text {
public:
    virtual ~Text() = default;

    // The token that ends every document of the text and is left out of pieces; none: no such.
    virtual std::optional<std::uint16_t> end_of_document() const = 0;
    // Tokens, valid until the next call; empty at the end of the last document, once a pass.
    virtual std::span<const std::uint16_t> next_piece() = 0;
};

class FileText final : public Text {
public:
    explicit FileText(const std::vector<std::string>& inputs) : paths_(list_files(inputs).paths) {}

    std::optional<std::uint16_t> end_of_document() const override { return kEndOfDocument; }

    std::span<const std::uint16_t> next_piece() override {
        while (next_ < paths_.size() || reader_ != nullptr) {
            if (reader_ == nullptr) {
                reader_ = std::make_unique<TextReader>(paths_[next_++]);
            }
            const auto bytes = reader_->read();
            if (!bytes.empty()) {
                tokens_.assign(bytes.begin(), bytes.end());
                return tokens_;
            }
            reader_.reset();
        }
        next_ = 0;
        return {};
    }

private:
    std::vector<std::string> paths_;
    std::size_t next_ = 0;
    std::unique_ptr<TextReader> reader_;
    std::vector<std::uint16_t> tokens_;
};

class StoreText final : public Text {
public:
    explicit StoreText(const std::string& path) : store_(path), end_(common_end()) {}

    std::optional<std::uint16_t> end_of_document() const override { return end_; }

    std::span<const std::uint16_t> next_piece() override {
        while (document_ < store_.num_documents()) {
            const std::int64_t all = store_.document_tokens(document_);
            const std::int64_t kept = std::max<std::int64_t>(all - (end_ ? 1 : 0), 0);
            if (position_ < kept) {
                constexpr std::int64_t kPieceTokens = 1 << 16;
                read(document_, position_, std::min(kPieceTokens, kept - position_));
                position_ += static_cast<std::int64_t>(tokens_.size());
                return tokens_;
            }
            ++document_;
            position_ = 0;
        }
        document_ = 0;
        return {};
    }

private:
    void read(std::int64_t document, std::int64_t first, std::int64_t count) {
        wide_.resize(static_cast<std::size_t>(count));
        store_.read(document, first, wide_);
        const auto too_large = std::find_if(wide_.begin(), wide_.end(), [](std::int32_t token) {
            return token < 0 || token > std::numeric_limits<std::uint16_t>::max();
        });
        if (too_large != wide_.end()) {
            throw DataError(fmt::format(
                "{}: document {} has token {}, and datasets are written with tokens up to 65535",
                store_.name(), document, *too_large));
        }
        tokens_.assign(wide_.begin(), wide_.end());
    }

    std::optional<std::uint16_t> common_end() {
        std::optional<std::uint16_t> end;
        for (std::int64_t document = 0; document < store_.num_documents(); ++document) {
            const std::int64_t tokens = store_.document_tokens(document);
            if (tokens == 0) {
                continue;
            }
            read(document, tokens - 1, 1);
            if (end && *end != tokens_.front()) {
                return std::nullopt;
            }
            end = tokens_.front();
        }
        return store_.num_documents() > 1 ? end : std::nullopt;
    }

    TokenStore store_;
    std::int64_t document_ = 0;
    std::int64_t position_ = 0;
    std::vector<std::int32_t> wide_;
    std::vector<std::uint16_t> tokens_;
    std::optional<std::uint16_t> end_;
};

bool is_dataset(const std::string& path) {
    std::error_code error;
    const std::filesystem::path file(path);
    return file.extension() == ".bin" || file.extension() == ".idx" ||
           std::filesystem::exists(path + ".idx", error);
}

std::unique_ptr<Text> open_text(const std::vector<std::string>& inputs) {
    if (inputs.size() == 1 && is_dataset(inputs.front())) {
        return std::make_unique<StoreText>(inputs.front());
    }
    for (const std::string& input : inputs) {
        if (is_dataset(input)) {
            throw DataError(fmt::format(
                "--from {}: is a dataset beside other inputs; give one dataset, or text files and "
                "folders",
                input));
        }
    }
    return std::make_unique<FileText>(inputs);
}

// Takes any number of tokens from the endless text.
class Cutter {
public:
    Cutter(Text& text, const std::vector<std::string>& inputs) : text_(text), inputs_(inputs) {}

    void copy(std::int64_t count, DatasetWriter& writer) {
        while (count > 0) {
            if (piece_.empty()) {
                refill();
            }
            const auto taken = std::min(static_cast<std::size_t>(count), piece_.size());
            writer.append(piece_.first(taken));
            piece_ = piece_.subspan(taken);
            count -= static_cast<std::int64_t>(taken);
            used_ += static_cast<std::int64_t>(taken);
        }
    }

    // Goes through the rest of the first pass if need be.
    std::int64_t source_tokens() {
        while (source_tokens_ == 0) {
            refill();
        }
        return source_tokens_;
    }
    std::int64_t used_tokens() const { return used_; }

private:
    void refill() {
        piece_ = text_.next_piece();
        if (piece_.empty()) {  // a pass is over
            if (seen_ == 0) {
                throw DataError(
                    fmt::format("--from {}: there is no text in it", fmt::join(inputs_, " ")));
            }
            source_tokens_ = source_tokens_ == 0 ? seen_ : source_tokens_;
            piece_ = text_.next_piece();
        }
        seen_ += static_cast<std::int64_t>(piece_.size());
    }

    Text& text_;
    const std::vector<std::string>& inputs_;
    std::span<const std::uint16_t> piece_;
    std::int64_t seen_ = 0;
    std::int64_t used_ = 0;
    std::int64_t source_tokens_ = 0;  // 0: not through yet
};

}  // namespace

SynthReport synthesize(const std::string& prefix,
                       const std::vector<std::string>& inputs,
                       std::span<const std::int64_t> pairs,
                       const std::function<void(std::int64_t)>& on_progress) {
    std::vector<std::string> files = inputs;
    if (inputs.size() == 1 && is_dataset(inputs.front())) {
        std::string source = inputs.front();
        if (source.ends_with(".bin") || source.ends_with(".idx")) {
            source.resize(source.size() - 4);
        }
        files = {source + ".bin", source + ".idx"};
    }
    check_output(prefix, files);
    check_replaceable(prefix);
    const std::unique_ptr<Text> text = open_text(inputs);
    const std::optional<std::uint16_t> end = text->end_of_document();
    Cutter cutter(*text, inputs);
    DatasetWriter writer(prefix);
    for (const std::int64_t count : pairs) {
        cutter.copy(end ? count : count + 1, writer);
        if (end) {
            writer.append(std::span(&*end, 1));
        }
        writer.end_document();
        on_progress(writer.num_documents());
    }
    SynthReport report{.num_documents = writer.num_documents(), .num_tokens = writer.num_tokens()};
    report.source_tokens = cutter.source_tokens();
    report.passes =
        static_cast<double>(cutter.used_tokens()) / static_cast<double>(report.source_tokens);
    writer.commit();
    return report;
}

}  // namespace dcp::data
