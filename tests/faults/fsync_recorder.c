/* Records what a power cut would leave: at each fsync, what that file or folder holds then. See power.py. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (strncmp(path, WATCHED, strlen(WATCHED)) || identity(fd, "", AT_EMPTY_PATH, id, sizeof id, &mode)) return;
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
    record(fd);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    record(fd);
    return (int)syscall(SYS_fdatasync, fd);
}
