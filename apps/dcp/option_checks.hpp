// Checks of options that the library for command lines does not make: it cuts numbers to 64 bits
// and reads 010 as octal.
#pragma once

#include <CLI/CLI.hpp>

namespace dcp {

CLI::Validator whole_number();  // of 64 bits, in decimal digits
CLI::Validator seed_number();   // the same from 0 to 2^64 - 1

}  // namespace dcp
