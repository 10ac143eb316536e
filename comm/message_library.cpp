#include "comm/message_library.hpp"

#include <utility>

namespace dcp::comm {

namespace {

std::string& name_of_process() {
    static std::string name;  // a process has one library, as it has one MPI
    return name;
}

}  // namespace

const std::string& message_library() {
    return name_of_process();
}

void set_message_library(std::string name) {
    name_of_process() = std::move(name);
}

std::string library_name(std::string_view description) {
    std::string name;
    bool was_blank = false;
    for (const char letter : description.substr(0, description.find_first_of(",\n\r"))) {
        const bool is_blank = letter == ' ' || letter == '\t' || letter == '\0';
        if (!is_blank && was_blank && !name.empty()) {
            name += ' ';
        }
        if (!is_blank) {
            name += letter;
        }
        was_blank = is_blank;
    }
    return name;
}

}  // namespace dcp::comm
