// Checks of options that the library for command lines does not make: it cuts numbers to 64 bits,
// reads 010 as octal, and takes a text that is empty for one that is not there.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dcp {

CLI::Validator whole_number();  // of 64 bits, in decimal digits
CLI::Validator seed_number();   // the same from 0 to 2^64 - 1

// No option or argument of the command, nor of those below it, may be the empty text: that is a
// shell variable that was not set.
void refuse_empty_texts(CLI::App& app);

// "A,B" -> A and B; ConfigError names the option where an element is empty.
std::vector<std::string> elements_of(const std::string& option, const std::string& list);
// The same of numbers.
std::vector<double> numbers_of(const std::string& option, const std::string& list);

}  // namespace dcp
