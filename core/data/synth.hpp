// `dcp data synth`: documents of wanted lengths, cut from real text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dcp::data {

struct SynthReport {
    std::int64_t num_documents = 0;
    std::int64_t num_tokens = 0;     // written, ends of documents included
    std::int64_t source_tokens = 0;  // of the text, once through
    double passes = 0;               // how often the text was gone through; above 1 it repeats
};

// Lays the documents of `inputs` end to end, from the start again when they end, and cuts the
// result into documents with `pairs` (input, target) pairs each, so that sequence i of the new
// dataset has pairs[i] tokens. `inputs` are one dataset (a prefix) or text files and folders (bytes
// as tokens, .gz decompressed). Where all documents of the text end with one and the same token
// (256 of `dcp data import`), that token ends the new documents and is nowhere else. The dataset
// appears at the end and whole (dataset_writer.hpp). `on_progress` gets the number of finished
// documents. DataError: an input that cannot be read or has no text, an output among the inputs, a
// token that uint16 cannot hold. IoError: the output cannot be written.
SynthReport synthesize(const std::string& prefix,
                       const std::vector<std::string>& inputs,
                       std::span<const std::int64_t> pairs,
                       const std::function<void(std::int64_t)>& on_progress);

}  // namespace dcp::data
