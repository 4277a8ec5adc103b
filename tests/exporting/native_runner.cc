// Runs signatures of a SavedModel with TensorFlow's C++ runtime, as TensorFlow Serving does: no Python in the process.
//
//     native_runner DIRECTORY SIGNATURE [LIBRARY_OF_OPS ...] < request > answer
//
// Request and answer are a serialized `NodeDef`, which maps names to tensors in its `attr`. Exit status 1 and one line on
// the standard error where something is wrong.

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/public/session.h"

void Check(bool ok, const std::string& message) {
  if (ok) return;
  std::cerr << message << std::endl;
  std::exit(1);
}

void Check(const absl::Status& status) { Check(status.ok(), std::string(status.message())); }

int main(int argc, char** argv) {
  Check(argc > 2, "usage: native_runner DIRECTORY SIGNATURE [LIBRARY_OF_OPS ...] < request > answer");
  for (int i = 3; i < argc; ++i) {
    void* library;
    Check(tensorflow::Env::Default()->LoadDynamicLibrary(argv[i], &library));
  }
  tensorflow::SavedModelBundle bundle;
  Check(tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &bundle));
  const auto& signatures = bundle.GetSignatures();
  const auto signature = signatures.find(argv[2]);
  Check(signature != signatures.end(), std::string("the SavedModel has no signature ") + argv[2]);

  tensorflow::NodeDef request, answer;
  Check(request.ParseFromIstream(&std::cin), "the request is malformed");
  std::vector<std::pair<std::string, tensorflow::Tensor>> inputs;
  for (const auto& [name, value] : request.attr()) {
    tensorflow::Tensor tensor;
    const auto input = signature->second.inputs().find(name);
    Check(input != signature->second.inputs().end() && tensor.FromProto(value.tensor()), "a wrong input " + name);
    inputs.emplace_back(input->second.name(), tensor);
  }
  std::vector<std::string> names, tensors;
  for (const auto& [name, output] : signature->second.outputs()) {
    names.push_back(name);
    tensors.push_back(output.name());
  }
  std::vector<tensorflow::Tensor> outputs;
  Check(bundle.GetSession()->Run(inputs, tensors, {}, &outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].AsProtoField((*answer.mutable_attr())[names[i]].mutable_tensor());
  }
  Check(answer.SerializeToOstream(&std::cout), "the answer cannot be written");
  return 0;
}
