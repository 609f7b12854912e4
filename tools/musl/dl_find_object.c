// What GCC's unwinder asks glibc for: where the module that has `pc` keeps its .eh_frame_hdr. musl does not have that
// function; it has the older one, which looks at each module.

#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>

// As glibc's <dlfcn.h> lays it out. The unwinder reads `eh_frame` only.
struct dl_find_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct question {
  ElfW(Addr) pc;
  struct dl_find_object* answer;
};

static int look(struct dl_phdr_info* module, size_t size, void* of) {
  const struct question* asked = of;
  ElfW(Addr) header = 0;
  int has_it = 0;
  (void)size;
  for (const ElfW(Phdr)* part = module->dlpi_phdr; part != module->dlpi_phdr + module->dlpi_phnum; ++part) {
    const ElfW(Addr) begin = module->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) {
      header = begin;
    } else if (part->p_type == PT_LOAD && asked->pc - begin < part->p_memsz) {
      has_it = 1;
    }
  }
  if (!has_it || header == 0) {
    return 0;
  }
  asked->answer->eh_frame = (void*)header;
  return 1;
}

int _dl_find_object(void* pc, struct dl_find_object* answer) {
  struct question asked = {(ElfW(Addr))pc, answer};
  return dl_iterate_phdr(look, &asked) == 1 ? 0 : -1;
}

// The unwinder refers to these weakly. If the first is not linked, it takes the program for one without threads.
extern int __pthread_key_create(pthread_key_t*, void (*)(void*));
__attribute__((used)) static void (*const linked[])(void) = {
    (void (*)(void))__pthread_key_create,
    (void (*)(void))pthread_once,
    (void (*)(void))pthread_mutex_lock,
    (void (*)(void))pthread_mutex_unlock,
};
