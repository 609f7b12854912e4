#include <dlfcn.h>
#include <netdb.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

// Stands before the system's look-up of names, in a program that is started with LD_PRELOAD: no name server answers
// about slow.test. It makes the file that the environment names, so that a test knows that it was asked.

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* req, addrinfo** pai) {
  if (name == nullptr || std::string_view(name) != "slow.test") {
    static const auto usual =
        reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));  // NOLINT(*-reinterpret-cast)
    return usual(name, service, req, pai);
  }
  if (const char* const file = std::getenv("SLOW_NAMES_ASKED")) {  // NOLINT(concurrency-mt-unsafe): nobody changes it
    if (std::FILE* const asked = std::fopen(file, "we")) {
      std::fclose(asked);
    }
  }
  ::sleep(120);
  return EAI_AGAIN;
}
