// NVRTC by g++: sources are compiled to shared objects for the CPU.
//
// SOFTGPU_HOME names the folder with the device headers. The build defines SOFTGPU_DEVICE_FLAGS, the
// options that the precompiled headers were made with, and SOFTGPU_CUDA_MAJOR and SOFTGPU_CUDA_MINOR.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../device/services.h"

#define SOFTGPU_EXPORT extern "C" __attribute__((visibility("default")))

extern char** environ;

namespace {

enum Result {
  kSuccess = 0,
  kInvalidInput = 3,
  kCompilation = 6,
  kUnknownExpression = 10,
  kInternal = 11,
};

struct Program {
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers = {};  // (name, text)
  std::vector<std::string> expressions = {};
  std::vector<std::string> lowered = {};
  std::string log = {};
  std::string image = {};
};

// A folder that is gone when this is.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "softgpu-nvrtc-XXXXXX").string();
    if (mkdtemp(path.data())) path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  explicit operator bool() const { return !path_.empty(); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string home() {
  const char* found = getenv("SOFTGPU_HOME");
  return found ? found : ".";
}

// `extern __shared__ T name[];` becomes a pointer to the dynamic shared memory.
std::string with_dynamic_shared(const std::string& source) {
  static const std::regex declared(
      R"(extern\s+__shared__\s+((?:__align__\s*\([^)]*\)\s*)?)([\w: <>,]+?)\s+(\w+)\s*)"
      R"(\[\s*\]\s*;)");
  return std::regex_replace(source, declared,
                            "$2* $3 = static_cast<$2*>(softgpu_services->dynamic_shared);");
}

// The kernels that keep their names, being declared extern "C".
std::vector<std::string> plain_kernels(const std::string& source) {
  static const std::regex kernel(
      R"((extern\s+"C"\s+)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+)"
      R"((?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\()");
  static const std::regex block(R"(extern\s+"C"\s*\{)");
  const bool within = std::regex_search(source, block);
  std::vector<std::string> names;
  for (std::sregex_iterator it(source.begin(), source.end(), kernel), end; it != end; ++it)
    if ((*it)[1].matched || within) names.push_back((*it)[2]);
  return names;
}

// The header to include before a source: of those that are precompiled the one that has most headers
// of CuPy, and none that the source does not include itself. Its name lists them.
std::string prelude(const std::string& source) {
  static const std::regex included(R"((?:^|\n)[ \t]*#[ \t]*include[ \t]*[<"]cupy/([\w.]+)[>"])");
  std::set<std::string> headers;
  for (std::sregex_iterator it(source.begin(), source.end(), included), end; it != end; ++it)
    headers.insert((*it)[1]);
  std::string best;
  size_t most = 0;
  for (const auto& entry : std::filesystem::directory_iterator(home() + "/device")) {
    std::stringstream parts(entry.path().stem().string());
    std::string part;
    if (entry.path().extension() != ".h" || !std::getline(parts, part, '+') ||
        part != "precompiled")
      continue;
    size_t count = 1;
    bool all = true;
    for (; std::getline(parts, part, '+'); ++count) all = all && headers.count(part);
    if (all && count > most) best = entry.path().string(), most = count;
  }
  return best;
}

// The options that mean the same to g++. Headers may use what g++ has beyond C++.
std::vector<std::string> translated(int count, const char** options) {
  std::vector<std::string> made;
  std::string standard = "17";
  for (int n = 0; n < count; ++n) {
    const std::string option = options[n];
    if (option.rfind("-I", 0) == 0) made.push_back("-isystem" + option.substr(2));
    if (option.rfind("-D", 0) == 0) made.push_back(option);
    const size_t at = option.find("std=c++");
    if (at != std::string::npos) standard = std::max(standard, option.substr(at + 7));
  }
  made.push_back("-std=c++" + standard);
  return made;
}

// Runs a command, and returns whether it succeeded; what it says goes to a file.
bool run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&files, 2, 1);
  pid_t child;
  int status = -1;
  if (posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ) == 0)
    waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&files);
  return status == 0;
}

std::string packed(const std::string& library) {
  SoftGpuImage head;
  memcpy(head.magic, SOFTGPU_MAGIC, sizeof head.magic);
  head.nbytes = library.size();
  return std::string(reinterpret_cast<char*>(&head), sizeof head) + library;
}

Result compile(Program* program, int count, const char** options) {
  std::string text = with_dynamic_shared(program->source) + "\n";
  for (const std::string& name : plain_kernels(program->source))
    text += "SOFTGPU_EXPORT_KERNEL(" + name + ", " + name + ")\n";
  program->lowered.clear();
  for (const std::string& expression : program->expressions) {
    const std::string name = "expression" + std::to_string(program->lowered.size());
    text += "SOFTGPU_EXPORT_KERNEL(" + name + ", " + expression + ")\n";
    program->lowered.push_back(name);
  }
  Folder folder;
  if (!folder) return kInternal;
  const std::string source = folder.file("kernel.cu"), library = folder.file("kernel.so");
  std::ofstream(source) << text;
  for (const auto& [name, header] : program->headers) std::ofstream(folder.file(name)) << header;
  std::vector<std::string> command = {"g++", "-x", "c++"};
  std::stringstream flags(SOFTGPU_DEVICE_FLAGS);
  for (std::string flag; flags >> flag;) command.push_back(flag);
  command.push_back("-isystem" + home() + "/device");  // has a header that stands for CuPy's
  for (const std::string& option : translated(count, options)) command.push_back(option);
  for (const std::string& word :
       {std::string("-shared"), std::string("-Wl,-s"), "-I" + folder.file(""),
        "-isystem" + home() + "/include", std::string("-include"), prelude(program->source),
        std::string("-o"), library, source})
    command.push_back(word);
  const bool made = run(command, folder.file("log"));
  program->log = read(folder.file("log"));
  if (!made) return kCompilation;
  program->image = packed(read(library));
  return kSuccess;
}

Result copy_out(const std::string& text, char* to) {
  memcpy(to, text.data(), text.size());
  to[text.size()] = 0;
  return kSuccess;
}

}  // namespace

SOFTGPU_EXPORT const char* nvrtcGetErrorString(int error) {
  switch (error) {
    case kSuccess: return "NVRTC_SUCCESS";
    case kInvalidInput: return "NVRTC_ERROR_INVALID_INPUT";
    case kCompilation: return "NVRTC_ERROR_COMPILATION";
    case kUnknownExpression: return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    default: return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}

SOFTGPU_EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = SOFTGPU_CUDA_MAJOR;
  *minor = SOFTGPU_CUDA_MINOR;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcCreateProgram(Program** made, const char* source, const char*, int count,
                                      const char** texts, const char** names) {
  *made = new Program{source};
  for (int n = 0; n < count; ++n) (*made)->headers.emplace_back(names[n], texts[n]);
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcAddNameExpression(Program* program, const char* expression) {
  program->expressions.push_back(expression);
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcCompileProgram(Program* program, int count, const char** options) {
  if (!program->source.empty()) return compile(program, count, options);
  program->image = "// nothing\n";  // CuPy compiles nothing to learn of the compiler
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetLoweredName(Program* program, const char* expression,
                                       const char** name) {
  for (size_t n = 0; n < program->lowered.size(); ++n) {
    if (program->expressions[n] != expression) continue;
    *name = program->lowered[n].c_str();
    return kSuccess;
  }
  return kUnknownExpression;
}

SOFTGPU_EXPORT int nvrtcGetPTXSize(Program* program, size_t* nbytes) {
  *nbytes = program->image.size() + 1;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetPTX(Program* program, char* to) { return copy_out(program->image, to); }

SOFTGPU_EXPORT int nvrtcGetCUBINSize(Program* program, size_t* nbytes) {
  *nbytes = program->image.size() + 1;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetCUBIN(Program* program, char* to) {
  return copy_out(program->image, to);
}

SOFTGPU_EXPORT int nvrtcGetProgramLogSize(Program* program, size_t* nbytes) {
  *nbytes = program->log.size() + 1;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetProgramLog(Program* program, char* to) {
  return copy_out(program->log, to);
}

SOFTGPU_EXPORT int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetSupportedArchs(int* architectures) {
  architectures[0] = 90;
  return kSuccess;
}

SOFTGPU_EXPORT int nvrtcGetLTOIRSize(Program*, size_t*) { return kInvalidInput; }

SOFTGPU_EXPORT int nvrtcGetLTOIR(Program*, char*) { return kInvalidInput; }
