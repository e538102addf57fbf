/* Stands between a process and its disk; see power_cut.py.
 *
 * Records what a power cut would leave: at each fsync, what that file or folder holds then. And counts the calls that
 * change something below WATCHED, or ask PostgreSQL, in all processes that have this library; the process that makes
 * the call whose number is given in the file COUNTED is killed, a write with its first half done, or stopped before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static struct counted {
    atomic_long count, kill_at, stops;
} *counted;

__attribute__((constructor)) static void map_count(void) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, COUNTED, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) counted = found;
    close(fd);
}

static void end_process(void) {
    kill(getpid(), atomic_load(&counted->stops) ? SIGSTOP : SIGKILL);
}

static int is_half_done(void) {
    return !atomic_load(&counted->stops);
}

static int is_last(void) {
    long kill_at = counted ? atomic_load(&counted->kill_at) : 0;
    return kill_at && atomic_fetch_add(&counted->count, 1) + 1 == kill_at;
}

static void count_call(int is_watched) {
    if (is_watched && is_last()) end_process();
}

static int is_below(const char *path) {
    size_t length = strlen(WATCHED);
    return !strncmp(path, WATCHED, length) && (path[length] == '/' || !path[length]);
}

static int find_path(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return -1;
    path[length] = 0;
    return 0;
}

static int is_watched_at(int folder, const char *name) {
    char path[PATH_MAX];
    int kept_errno = errno, is_watched;
    if (!counted || !name) return 0;
    if (*name == '/') return is_below(name);
    is_watched = folder == AT_FDCWD ? getcwd(path, sizeof path) && is_below(path)
                                    : !find_path(folder, path, sizeof path) && is_below(path);
    errno = kept_errno;
    return is_watched;
}

static int is_watched_file(int fd) {
    char path[PATH_MAX];
    int kept_errno = errno;
    int is_watched = counted && !find_path(fd, path, sizeof path) && is_below(path);
    errno = kept_errno;
    return is_watched;
}

static int is_postgres(int fd) {
    struct sockaddr_un peer;
    socklen_t length = sizeof peer;
    int kept_errno = errno;
    memset(&peer, 0, sizeof peer);
    int is_one = counted && !getpeername(fd, (struct sockaddr *)&peer, &length) && peer.sun_family == AF_UNIX &&
                 strstr(peer.sun_path, ".s.PGSQL.");
    errno = kept_errno;
    return is_one;
}

static int identity(int folder, const char *name, int flags, char *id, size_t size, unsigned *mode) {
    struct statx found;
    if (statx(folder, name, flags, STATX_BASIC_STATS | STATX_BTIME, &found)) return -1;
    *mode = found.stx_mode;
    /* Inodes are used again; one that was made at another time is another file. */
    snprintf(id, size, "%llu-%lld-%u", (unsigned long long)found.stx_ino, (long long)found.stx_btime.tv_sec,
             found.stx_btime.tv_nsec);
    return 0;
}

static void write_entries(int from, FILE *to) {
    DIR *folder = fdopendir(from);
    if (!folder) return;
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        char id[64];
        unsigned mode;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (identity(dirfd(folder), entry->d_name, AT_SYMLINK_NOFOLLOW, id, sizeof id, &mode)) continue;
        fprintf(to, "%c %s %s\n", S_ISDIR(mode) ? 'd' : 'f', id, entry->d_name);
    }
    closedir(folder);
}

static void write_content(int from, FILE *to) {
    char buffer[1 << 16];
    ssize_t count;
    while ((count = read(from, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, (size_t)count, to);
    close(from);
}

static void record(int fd) {
    char link[64], path[PATH_MAX], id[64], part[PATH_MAX], whole[PATH_MAX];
    unsigned mode;
    int kept_errno = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (find_path(fd, path, sizeof path)) return;
    if (!is_below(path) || identity(fd, "", AT_EMPTY_PATH, id, sizeof id, &mode)) return;
    int from = open(link, O_RDONLY | O_CLOEXEC);
    snprintf(part, sizeof part, "%s/part-%ld-%s", RECORDED, (long)syscall(SYS_gettid), id);
    snprintf(whole, sizeof whole, "%s/%s", RECORDED, id);
    FILE *to = from < 0 ? NULL : fopen(part, "w");
    if (to) {
        if (S_ISDIR(mode)) write_entries(from, to);
        else write_content(from, to);
        fclose(to);
        rename(part, whole);
    }
    errno = kept_errno;
}

int fsync(int fd) {
    count_call(is_watched_file(fd));
    record(fd);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    count_call(is_watched_file(fd));
    record(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

static int open_counted(int folder, const char *path, int flags, va_list rest) {
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    if (flags & CHANGES) count_call(is_watched_at(folder, path));
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        int fd = open_counted(AT_FDCWD, path, flags, rest); \
        va_end(rest); \
        return fd; \
    }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        int fd = open_counted(folder, path, flags, rest); \
        va_end(rest); \
        return fd; \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    if ((is_watched_file(fd) || is_postgres(fd)) && is_last()) {
        if (is_half_done()) syscall(SYS_write, fd, data, size / 2);
        end_process();
    }
    return syscall(SYS_write, fd, data, size);
}

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t size, off_t offset) { \
        if (is_watched_file(fd) && is_last()) { \
            if (is_half_done()) syscall(SYS_pwrite64, fd, data, size / 2, offset); \
            end_process(); \
        } \
        return syscall(SYS_pwrite64, fd, data, size, offset); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int fd, const struct iovec *parts, int count) {
    count_call(is_watched_file(fd));
    return syscall(SYS_writev, fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    if (is_postgres(fd) && is_last()) {
        if (is_half_done()) syscall(SYS_sendto, fd, data, size / 2, flags, NULL, 0);
        end_process();
    }
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

int rename(const char *from, const char *to) {
    count_call(is_watched_at(AT_FDCWD, from) || is_watched_at(AT_FDCWD, to));
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    count_call(is_watched_at(from_folder, from) || is_watched_at(to_folder, to));
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

int link(const char *from, const char *to) {
    count_call(is_watched_at(AT_FDCWD, to));
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    count_call(is_watched_at(to_folder, to));
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int unlink(const char *path) {
    count_call(is_watched_at(AT_FDCWD, path));
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int folder, const char *path, int flags) {
    count_call(is_watched_at(folder, path));
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int rmdir(const char *path) {
    count_call(is_watched_at(AT_FDCWD, path));
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode) {
    count_call(is_watched_at(AT_FDCWD, path));
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    count_call(is_watched_at(folder, path));
    return (int)syscall(SYS_mkdirat, folder, path, mode);
}

#define FTRUNCATE(name) \
    int name(int fd, off_t size) { \
        count_call(is_watched_file(fd)); \
        return (int)syscall(SYS_ftruncate, fd, size); \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)
