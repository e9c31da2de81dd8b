/* A log device that hangs, for LD_PRELOAD: while the file $HANG_WHILE exists, no write to a file
   whose path contains $HANG_ON begins, and with $HANG_READS no read either. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_for_device(int fd) {
  const char *file = getenv("HANG_WHILE"), *part = getenv("HANG_ON");
  char link[32], path[PATH_MAX];
  int saved = errno;
  while (file && part && access(file, F_OK) == 0) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    if (!strstr(path, part)) break;
    usleep(5000);
  }
  errno = saved;
}

#define WAITS(type, name, parameters, arguments)             \
  type name parameters {                                     \
    static type (*real) parameters;                          \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name);    \
    wait_for_device(fd);                                     \
    return real arguments;                                   \
  }
#define BYTES int fd, const void *bytes, size_t count
#define PARTS int fd, const struct iovec *parts, int count

WAITS(ssize_t, write, (BYTES), (fd, bytes, count))
WAITS(ssize_t, writev, (PARTS), (fd, parts, count))
WAITS(ssize_t, pwrite, (BYTES, off_t at), (fd, bytes, count, at))
WAITS(ssize_t, pwrite64, (BYTES, off64_t at), (fd, bytes, count, at))
WAITS(ssize_t, pwritev, (PARTS, off_t at), (fd, parts, count, at))
WAITS(ssize_t, pwritev64, (PARTS, off64_t at), (fd, parts, count, at))
ssize_t read(int fd, void *bytes, size_t count) {
  static ssize_t (*real)(int, void *, size_t);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "read");
  if (getenv("HANG_READS")) wait_for_device(fd);
  return real(fd, bytes, count);
}
WAITS(int, fsync, (int fd), (fd))
WAITS(int, fdatasync, (int fd), (fd))
