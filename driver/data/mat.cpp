#include "driver/data/mat.h"

#include "models/errors.h"

#include <matio.h>

#include <cstdint>
#include <memory>

namespace prorata {
namespace fs = std::filesystem;
namespace {

struct CloseFile {
  void operator()(mat_t* file) const { Mat_Close(file); }
};
struct FreeVariable {
  void operator()(matvar_t* variable) const { Mat_VarFree(variable); }
};
using File = std::unique_ptr<mat_t, CloseFile>;
using Variable = std::unique_ptr<matvar_t, FreeVariable>;

// What matio has to say goes into our own sentence. (It keeps one function for the whole program.)
std::string& complaint() {
  static std::string text;
  return text;
}

std::string because() { return complaint().empty() ? "" : " (" + complaint() + ")"; }

File open_mat(const fs::path& file) {
  complaint().clear();
  Mat_LogInitFunc("prorata", [](int, char* message) { complaint() = message; });
  if (!fs::is_regular_file(file)) throw InputError(file.string() + ": no such file");
  File opened(Mat_Open(file.c_str(), MAT_ACC_RDONLY));
  if (!opened) throw InputError(file.string() + ": at byte 0: is no file of MATLAB" + because());
  return opened;
}

bool is_array_of_numbers(const matvar_t& v) {
  return v.class_type >= MAT_C_DOUBLE && v.class_type <= MAT_C_UINT64 && !v.isComplex && v.name && v.rank > 0 && v.dims;
}

template <class T>
std::vector<double> widened(const matvar_t& v, std::size_t count) {
  const auto* const values = static_cast<const T*>(v.data);
  return {values, values + count};
}

std::vector<double> numbers(const matvar_t& v, std::size_t count) {
  switch (v.class_type) {
    case MAT_C_DOUBLE: return widened<double>(v, count);
    case MAT_C_SINGLE: return widened<float>(v, count);
    case MAT_C_INT8: return widened<std::int8_t>(v, count);
    case MAT_C_UINT8: return widened<std::uint8_t>(v, count);
    case MAT_C_INT16: return widened<std::int16_t>(v, count);
    case MAT_C_UINT16: return widened<std::uint16_t>(v, count);
    case MAT_C_INT32: return widened<std::int32_t>(v, count);
    case MAT_C_UINT32: return widened<std::uint32_t>(v, count);
    case MAT_C_INT64: return widened<std::int64_t>(v, count);
    default: return widened<std::uint64_t>(v, count);
  }
}

}  // namespace

std::string MatVariable::to_string() const {
  std::string text = name;
  for (std::size_t i = 0; i < dimensions.size(); ++i) text += (i ? ", " : " [") + std::to_string(dimensions[i]);
  return text + "] in " + file.string();
}

std::vector<MatVariable> list_mat(const fs::path& file) {
  const File opened = open_mat(file);
  std::vector<MatVariable> variables;
  while (const Variable v{Mat_VarReadNextInfo(opened.get())})
    if (is_array_of_numbers(*v)) variables.push_back({file, v->name, {v->dims, v->dims + v->rank}});
  if (!complaint().empty()) throw InputError(file.string() + ": is damaged" + because());
  return variables;
}

std::vector<double> read_mat(const MatVariable& variable) {
  constexpr std::size_t kMostOfAByte = 1032;  // numbers; as many as deflate makes bytes
  const std::size_t most = fs::file_size(variable.file) * kMostOfAByte;
  std::size_t count = 1;
  for (const std::size_t d : variable.dimensions) {
    if (d != 0 && count > most / d)
      throw InputError(variable.to_string() +
                       ": the file is too short for so many numbers; it is truncated or damaged");
    count *= d;
  }
  const File opened = open_mat(variable.file);
  const Variable v(Mat_VarRead(opened.get(), variable.name.c_str()));
  const bool whole = v && v->data && is_array_of_numbers(*v) &&
                     std::vector<std::size_t>(v->dims, v->dims + v->rank) == variable.dimensions && v->data_size > 0 &&
                     v->nbytes / static_cast<std::size_t>(v->data_size) == count;
  if (!whole || !complaint().empty())
    throw InputError(variable.to_string() + ": its numbers cannot be read; the file is truncated or damaged" +
                     because());
  return numbers(*v, count);
}

}  // namespace prorata
