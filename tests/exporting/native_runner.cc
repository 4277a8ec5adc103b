// Runs signatures of a SavedModel with TensorFlow's C++ runtime, as TensorFlow Serving does: no Python in the process.
//
//     native_runner DIRECTORY SIGNATURE [LIBRARY_OF_OPS ...] < request > answer
//
// A request and an answer have a line a tensor: name, type, shape, values, between tabs; sizes of the shape and values
// with a space between. Strings are in hexadecimal, an empty one is "-", so that any bytes are safe. Floats have nine
// digits, enough to be the same when read.
//
//     text  string  2  48656c6c6f21 -
//
// Exit status 1 and one line on the standard error where something is wrong.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session.h"

namespace {

using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::tstring;

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << message << std::endl;
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

int Digit(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

tstring FromHex(const std::string& hex) {
  std::string bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(Digit(hex[i]) * 16 + Digit(hex[i + 1]));
  return bytes;
}

std::string ToHex(const tstring& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string hex;
  for (unsigned char byte : bytes) {
    hex.push_back(digits[byte / 16]);
    hex.push_back(digits[byte % 16]);
  }
  return hex.empty() ? "-" : hex;
}

// The parts of a text, empty ones included.
std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char character : text) {
    if (character == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(character);
    }
  }
  return parts;
}

template <typename T>
void Read(std::istream& values, Tensor* tensor) {
  auto flat = tensor->flat<T>();
  for (int64_t i = 0; i < flat.size(); ++i) {
    if (!(values >> flat(i))) Fail("a tensor of the request has too few values");
  }
}

void ReadStrings(std::istream& values, Tensor* tensor) {
  auto flat = tensor->flat<tstring>();
  std::string hex;
  for (int64_t i = 0; i < flat.size(); ++i) {
    if (!(values >> hex)) Fail("a tensor of the request has too few values");
    flat(i) = FromHex(hex);
  }
}

std::pair<std::string, Tensor> ReadTensor(const std::string& line) {
  const std::vector<std::string> columns = Split(line, '\t');
  if (columns.size() != 4) Fail("a line of the request must have 4 columns: name, type, shape, values");
  DataType type;
  if (!tensorflow::DataTypeFromString(columns[1], &type)) Fail("no such type: " + columns[1]);
  tensorflow::TensorShape shape;
  std::istringstream sizes(columns[2]), values(columns[3]);
  for (int64_t size; sizes >> size;) shape.AddDim(size);
  Tensor tensor(type, shape);
  switch (type) {
    case tensorflow::DT_STRING: ReadStrings(values, &tensor); break;
    case tensorflow::DT_INT32: Read<int32_t>(values, &tensor); break;
    case tensorflow::DT_INT64: Read<int64_t>(values, &tensor); break;
    case tensorflow::DT_FLOAT: Read<float>(values, &tensor); break;
    default: Fail("a request cannot hold " + columns[1]);
  }
  return {columns[0], tensor};
}

template <typename T>
void WriteIntegers(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  for (int64_t i = 0; i < flat.size(); ++i) std::cout << (i ? " " : "") << flat(i);
}

void WriteTensor(const std::string& name, const Tensor& tensor) {
  std::cout << name << '\t' << tensorflow::DataTypeString(tensor.dtype()) << '\t';
  for (int i = 0; i < tensor.dims(); ++i) std::cout << (i ? " " : "") << tensor.dim_size(i);
  std::cout << '\t';
  switch (tensor.dtype()) {
    case tensorflow::DT_BOOL: WriteIntegers<bool>(tensor); break;
    case tensorflow::DT_INT32: WriteIntegers<int32_t>(tensor); break;
    case tensorflow::DT_INT64: WriteIntegers<int64_t>(tensor); break;
    case tensorflow::DT_FLOAT: {
      char digits[32];
      const auto flat = tensor.flat<float>();
      for (int64_t i = 0; i < flat.size(); ++i) {
        std::snprintf(digits, sizeof digits, "%.9g", flat(i));
        std::cout << (i ? " " : "") << digits;
      }
      break;
    }
    case tensorflow::DT_STRING: {
      const auto flat = tensor.flat<tstring>();
      for (int64_t i = 0; i < flat.size(); ++i) std::cout << (i ? " " : "") << ToHex(flat(i));
      break;
    }
    default: Fail("an answer cannot hold " + tensorflow::DataTypeString(tensor.dtype()));
  }
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Fail("usage: native_runner DIRECTORY SIGNATURE [LIBRARY_OF_OPS ...] < request > answer");
  for (int i = 3; i < argc; ++i) {
    void* library;
    Check(tensorflow::Env::Default()->LoadDynamicLibrary(argv[i], &library));
  }
  tensorflow::SavedModelBundle bundle;
  Check(tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &bundle));
  const auto& signatures = bundle.GetSignatures();
  const auto signature = signatures.find(argv[2]);
  if (signature == signatures.end()) Fail(std::string("the SavedModel has no signature ") + argv[2]);

  std::vector<std::pair<std::string, Tensor>> inputs;
  for (std::string line; std::getline(std::cin, line);) {
    auto named = ReadTensor(line);
    const auto input = signature->second.inputs().find(named.first);
    if (input == signature->second.inputs().end()) Fail("the signature has no input " + named.first);
    inputs.emplace_back(input->second.name(), named.second);
  }
  std::vector<std::string> names, tensors;
  for (const auto& output : signature->second.outputs()) {
    names.push_back(output.first);
    tensors.push_back(output.second.name());
  }
  std::vector<Tensor> outputs;
  Check(bundle.GetSession()->Run(inputs, tensors, {}, &outputs));
  for (size_t i = 0; i < outputs.size(); ++i) WriteTensor(names[i], outputs[i]);
  return 0;
}
