// The kernel of user-mode-linux keeps the registers of its programs in a block of a fixed size, and sets them with as many bytes. Linux takes
// nothing less than what the processor has, which is more where it has AMX: then no program can be started. Loaded before the kernel's own
// library, this sets the rest as it is. (What the kernel asks for is cut to its block by Linux.)

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

// Not on the stack: the kernel's own are small. One thread of it traces.
static char whole[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
    static long (*next)(enum __ptrace_request, ...);
    if (!next)
        next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    va_list rest;
    va_start(rest, request);
    pid_t program = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
        const struct iovec *part = data;
        struct iovec all = {whole, sizeof whole};
        if (next(PTRACE_GETREGSET, program, address, &all) == 0 && all.iov_len > part->iov_len) {
            memcpy(whole, part->iov_base, part->iov_len);
            return next(request, program, address, &all);
        }
    }
    return next(request, program, address, data);
}
