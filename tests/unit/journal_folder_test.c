/* SPDX-License-Identifier: Apache-2.0 */
/* Which process may write to a journal's folder, and which may remove it. Other processes are
 * forked: to the one that holds it a record lock is always free.
 *
 * behaviour: service / Its journal */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "service/core/snapshot.h"
#include "service/journal/format.h"
#include "service/journal/journal.h"
#include "service/server/journal_disk.h"
#include "service/server/journal_folder.h"

#define FILE_NAME "0000000001.journal"

enum { RIVALS = 4, ROUNDS = 300, NOBODY = 65534, FILES = 4200 };

struct stage {
    char parent[32];
    char path[64];
    struct muster_error err;
};

static int stage_init(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    (void)snprintf(stage->parent, sizeof stage->parent, "%s/mst-folder-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* no disk, if it may be */
    assert_non_null(mkdtemp(stage->parent));
    (void)snprintf(stage->path, sizeof stage->path, "%s/journal", stage->parent);
    *state = stage;
    return 0;
}

static int stage_fini(void **state)
{
    struct stage *stage = *state;

    mst_journal_folder_remove(stage->path, NULL);
    assert_int_equal(rmdir(stage->parent), 0);
    free(stage);
    return 0;
}

static bool is_there(const struct stage *stage, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", stage->path, name);
    return access(path, F_OK) == 0;
}

static void make_file(const struct stage *stage, const char *name)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", stage->path, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

/* What `act` returns in another process. */
static int elsewhere(struct stage *stage, int (*act)(const char *path, char *text))
{
    char *text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t pid;

    assert_ptr_not_equal(text, MAP_FAILED);
    pid = fork();
    if (pid == 0) {
        _exit(act(stage->path, text));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    (void)snprintf(stage->err.text, sizeof stage->err.text, "%s", text);
    (void)munmap(text, 4096);
    return WEXITSTATUS(status);
}

/* False: it is there already. */
static bool makes(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd >= 0 && close(fd) == 0;
}

static int removes(const char *path, char *text)
{
    char with[256];

    (void)text;
    (void)snprintf(with, sizeof with, "%s.secret", path);
    mst_journal_folder_remove(path, with);
    return 0;
}

static int opens(const char *path, char *text)
{
    struct mst_journal_folder folder;
    struct muster_error err = {.text = ""};
    muster_status status = mst_journal_folder_open(&folder, path, false, &err);

    (void)snprintf(text, 512, "%s", err.text);
    return -status;
}

static int claims(const char *path, char *text)
{
    struct muster_error err = {.text = ""};
    int owner;
    muster_status status = mst_journal_folder_claim(&owner, path, &err);

    (void)snprintf(text, 512, "%s", err.text);
    return -status;
}

/* Another process holds the journal. It is not removed. [run / The first cause] */
static void nobody_removes_what_another_process_holds(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_folder folder;
    int owner;

    assert_int_equal(mst_journal_folder_claim(&owner, stage->path, &stage->err), MUSTER_OK);
    make_file(stage, FILE_NAME);
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_true(is_there(stage, FILE_NAME)); /* its owner's, though no service runs */
    assert_int_equal(elsewhere(stage, claims), -MUSTER_EEXISTS);
    assert_non_null(strstr(stage->err.text, "runs a job of this name already"));
    assert_true(is_there(stage, FILE_NAME));
    (void)close(owner);
    assert_int_equal(mst_journal_folder_open(&folder, stage->path, true, &stage->err), MUSTER_OK);
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_true(is_there(stage, FILE_NAME)); /* the service's, though no run owns it */
    assert_int_equal(elsewhere(stage, claims), -MUSTER_EEXISTS);
    assert_non_null(strstr(stage->err.text, "keeps its own there already"));
    assert_int_equal(elsewhere(stage, opens), -MUSTER_EEXISTS);
    assert_true(is_there(stage, FILE_NAME));
    mst_journal_folder_close(&folder);
    assert_int_equal(elsewhere(stage, claims), 0);
    assert_false(is_there(stage, FILE_NAME)); /* of a run that is gone, as its service is */
    make_file(stage, FILE_NAME);
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_false(is_there(stage, ""));
}

/* A process is refused the journal that another one holds. It leaves nothing behind.
 * [run / The first cause] */
static void who_is_refused_leaves_nothing_behind(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_folder folder;

    assert_int_equal(mst_journal_folder_open(&folder, stage->path, true, &stage->err), MUSTER_OK);
    assert_int_equal(elsewhere(stage, claims), -MUSTER_EEXISTS);
    assert_false(is_there(stage, "owner"));
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_false(is_there(stage, "owner"));
    assert_true(is_there(stage, "lock"));
    mst_journal_folder_close(&folder);
}

static bool secret_is_there(const struct stage *stage)
{
    char with[256];

    (void)snprintf(with, sizeof with, "%s.secret", stage->path);
    return access(with, F_OK) == 0;
}

/* Another process has the journal that a secret goes with. The secret stays.
 * [run / Descriptors and signals] */
static void what_goes_with_it_stays_where_another_process_has_it(void **state)
{
    struct stage *stage = *state;
    char with[256];
    int owner;

    (void)snprintf(with, sizeof with, "%s.secret", stage->path);
    assert_int_equal(mst_journal_folder_claim(&owner, stage->path, &stage->err), MUSTER_OK);
    assert_true(makes(with));
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_true(secret_is_there(stage));
    (void)close(owner);
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_false(secret_is_there(stage));
    assert_true(makes(with)); /* where no folder is */
    assert_int_equal(elsewhere(stage, removes), 0);
    assert_false(secret_is_there(stage));
}

static void what_is_not_of_a_journal_stays(void **state)
{
    struct stage *stage = *state;
    int owner;

    assert_int_equal(mst_journal_folder_claim(&owner, stage->path, &stage->err), MUSTER_OK);
    make_file(stage, "notes.txt");
    make_file(stage, FILE_NAME);
    make_file(stage, "0000000001.entries"); /* of a replica's log */
    mst_journal_folder_remove(stage->path, NULL);
    (void)close(owner);
    assert_false(is_there(stage, FILE_NAME));
    assert_false(is_there(stage, "0000000001.entries"));
    assert_false(is_there(stage, "owner"));
    assert_true(is_there(stage, "notes.txt"));
    {
        char path[128];

        (void)snprintf(path, sizeof path, "%s/notes.txt", stage->path);
        assert_int_equal(unlink(path), 0);
    }
}

static void one_that_is_not_there_is_not_made_to_be_removed(void **state)
{
    struct stage *stage = *state;

    mst_journal_folder_remove(stage->path, NULL);
    assert_false(is_there(stage, ""));
}

/* Whether others find what is locked. */
static bool is_found(const char *path, int owner)
{
    char name[128];
    struct stat there, ours;

    (void)snprintf(name, sizeof name, "%s/owner", path);
    return stat(name, &there) == 0 && fstat(owner, &ours) == 0 && there.st_ino == ours.st_ino;
}

/* Owns it, removes it, and again: a lock on a file that was removed meanwhile is none. What goes
 * with it is gone for the next owner, and no later. */
static int contend(const char *path, _Atomic int *inside)
{
    char with[256];

    (void)snprintf(with, sizeof with, "%s.secret", path);
    for (int i = 0; i < ROUNDS; i++) {
        struct muster_error err;
        int owner;
        muster_status status = mst_journal_folder_claim(&owner, path, &err);

        if (status == MUSTER_OK) {
            if ((*inside)++ != 0 || !is_found(path, owner)) {
                return 1;
            }
            if (!makes(with) || access(with, F_OK) != 0) {
                return 3;
            }
            (*inside)--;
            mst_journal_folder_remove(path, with);
            (void)close(owner);
        } else if (status != MUSTER_EEXISTS) {
            (void)fprintf(stderr, "%s\n", err.text);
            return 2;
        }
    }
    return 0;
}

/* A journal's folder is removed again and again while processes want it. It has one owner.
 * [run / The first cause] */
static void it_has_one_owner_however_often_it_is_removed(void **state)
{
    struct stage *stage = *state;
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[RIVALS];

    assert_ptr_not_equal(shared, MAP_FAILED);
    for (int i = 0; i < RIVALS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            _exit(contend(stage->path, shared));
        }
    }
    for (int i = 0; i < RIVALS; i++) {
        int status;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    (void)munmap(shared, 4096);
}

static const char *vanishing; /* the folder that another process removes just now */

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
int __real_mst_own_file_open(int folder, const char *name, int flags);
int __wrap_mst_own_file_open(int folder, const char *name, int flags);

int __wrap_mst_own_file_open(int folder, const char *name, int flags)
{
    if (vanishing) {
        assert_int_equal(rmdir(vanishing), 0);
        vanishing = NULL;
    }
    return __real_mst_own_file_open(folder, name, flags);
}

static int refusal; /* what a file system says that cannot reserve; 0: it can */

int __real_fallocate(int fd, int mode, off_t offset, off_t size);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t size);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (refusal != 0) {
        errno = refusal;
        return -1;
    }
    return __real_fallocate(fd, mode, offset, size);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

/* Between the look at it and the lock in it. */
static void one_that_is_removed_just_then_is_made_again(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_folder folder;
    int owner;

    vanishing = stage->path;
    assert_int_equal(mst_journal_folder_open(&folder, stage->path, true, &stage->err), MUSTER_OK);
    assert_true(is_there(stage, "lock"));
    mst_journal_folder_close(&folder);
    mst_journal_folder_remove(stage->path, NULL);
    vanishing = stage->path;
    assert_int_equal(mst_journal_folder_claim(&owner, stage->path, &stage->err), MUSTER_OK);
    assert_true(is_found(stage->path, owner));
    (void)close(owner);
}

/* ---- whose it is ---- */

/* Others may write to the journal's folder. It is refused. */
static void what_others_may_write_to_is_refused(void **state)
{
    static const mode_t modes[] = {0720, 0702, 0777};
    struct stage *stage = *state;
    struct mst_journal_folder folder;
    int owner;

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(mkdir(stage->path, 0700), 0);
        make_file(stage, FILE_NAME);
        assert_int_equal(chmod(stage->path, modes[i]), 0);
        assert_int_equal(mst_journal_folder_open(&folder, stage->path, false, &stage->err),
                         MUSTER_EFAILED);
        assert_non_null(strstr(stage->err.text, "others may write to it (mode 07"));
        assert_int_equal(mst_journal_folder_claim(&owner, stage->path, &stage->err),
                         MUSTER_EFAILED);
        mst_journal_folder_remove(stage->path, NULL);
        assert_true(is_there(stage, FILE_NAME));
        assert_false(is_there(stage, "lock"));
        assert_false(is_there(stage, "owner"));
        assert_int_equal(chmod(stage->path, 0755), 0); /* others may look */
        assert_int_equal(mst_journal_folder_open(&folder, stage->path, false, &stage->err),
                         MUSTER_OK);
        mst_journal_folder_close(&folder);
        mst_journal_folder_remove(stage->path, NULL);
        assert_false(is_there(stage, ""));
    }
}

static void another_users_is_refused(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_folder folder;

    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(stage->path, 0700), 0);
    make_file(stage, FILE_NAME);
    assert_int_equal(chown(stage->path, NOBODY, NOBODY), 0);
    assert_int_equal(mst_journal_folder_open(&folder, stage->path, false, &stage->err),
                     MUSTER_EFAILED);
    assert_non_null(strstr(stage->err.text, "it belongs to another user (uid 65534"));
    mst_journal_folder_remove(stage->path, NULL);
    assert_true(is_there(stage, FILE_NAME));
    assert_false(is_there(stage, "lock"));
    assert_int_equal(chown(stage->path, 0, 0), 0);
}

static int opens_as_nobody(const char *path, char *text)
{
    struct mst_journal_folder folder;
    struct muster_error err = {.text = ""};
    muster_status status;

    if (geteuid() == 0 && setuid(NOBODY) != 0) {
        return 1;
    }
    status = mst_journal_folder_open(&folder, path, true, &err);
    (void)snprintf(text, 512, "%s", err.text);
    if (status == MUSTER_OK) {
        mst_journal_folder_close(&folder);
        mst_journal_folder_remove(path, NULL);
    }
    return -status;
}

/* Whoever made that one has to see to it that it lasts. */
static void what_it_lies_in_need_not_be_readable(void **state)
{
    struct stage *stage = *state;
    bool root = geteuid() == 0;

    assert_int_equal(root ? chown(stage->parent, NOBODY, NOBODY) : 0, 0);
    assert_int_equal(chmod(stage->parent, 0300), 0);
    assert_int_equal(elsewhere(stage, opens_as_nobody), 0);
    assert_string_equal(stage->err.text, "");
    assert_int_equal(chmod(stage->parent, 0700), 0);
    assert_int_equal(root ? chown(stage->parent, 0, 0) : 0, 0);
}

/* ---- its files ---- */

/* A file of the journal is a link. It is refused and not followed. */
static void no_file_leads_anywhere_else(void **state)
{
    static const char *const names[] = {"lock", FILE_NAME};
    struct stage *stage = *state;
    char outside[64], inside[128];
    struct mst_journal_disk *disk;
    int fd;

    (void)snprintf(outside, sizeof outside, "%s/outside", stage->parent);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(mkdir(stage->path, 0700), 0);
        (void)snprintf(inside, sizeof inside, "%s/%s", stage->path, names[i]);
        assert_int_equal(symlink(outside, inside), 0);
        if (mst_journal_disk_open(&disk, stage->path, false, &stage->err) == MUSTER_OK) {
            const struct mst_disk *how = mst_journal_disk_of(disk);
            uint64_t size;
            char byte;

            assert_int_equal(how->create(how->ctx, FILE_NAME, &fd), MUSTER_EFAILED);
            assert_int_equal(how->cut(how->ctx, FILE_NAME, 0, false), MUSTER_EFAILED);
            assert_int_equal(how->read(how->ctx, FILE_NAME, 0, &byte, 1), MUSTER_EFAILED);
            assert_int_equal(how->size(how->ctx, FILE_NAME, &size), MUSTER_EFAILED);
            assert_non_null(strstr(how->reason(how->ctx), FILE_NAME));
            mst_journal_disk_close(disk);
        } else {
            assert_int_equal(i, 0);
        }
        assert_int_not_equal(access(outside, F_OK), 0);
        assert_int_equal(unlink(inside), 0);
        mst_journal_folder_remove(stage->path, NULL);
    }
}

/* A file of the journal is no regular file. It is not waited for. */
static void what_is_no_file_is_not_waited_for(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_disk *disk;
    const struct mst_disk *how;
    char inside[128];
    char byte;
    int fd;

    assert_int_equal(mkdir(stage->path, 0700), 0);
    (void)snprintf(inside, sizeof inside, "%s/" FILE_NAME, stage->path);
    assert_int_equal(mkfifo(inside, 0600), 0);
    assert_int_equal(mst_journal_disk_open(&disk, stage->path, false, &stage->err), MUSTER_OK);
    how = mst_journal_disk_of(disk);
    assert_int_equal(how->read(how->ctx, FILE_NAME, 0, &byte, 1), MUSTER_EFAILED);
    assert_int_equal(how->create(how->ctx, FILE_NAME, &fd), MUSTER_EFAILED);
    assert_int_equal(how->cut(how->ctx, FILE_NAME, 0, false), MUSTER_EFAILED);
    mst_journal_disk_close(disk);
}

/* On NFS, say. */
static void a_file_system_that_cannot_reserve_is_written_to(void **state)
{
    static const struct {
        int refusal;
        muster_status status;
    } cases[] = {{EOPNOTSUPP, MUSTER_OK},
                 {ENOSYS, MUSTER_OK},
                 {ENOSPC, MUSTER_ENOSPACE},
                 {EIO, MUSTER_EFAILED}};
    enum { SIZE = 10000 };
    struct stage *stage = *state;
    struct mst_journal_disk *opened;
    const struct mst_disk *disk;

    assert_int_equal(mst_journal_disk_open(&opened, stage->path, false, &stage->err), MUSTER_OK);
    disk = mst_journal_disk_of(opened);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t size = 0;
        int file;

        assert_int_equal(disk->create(disk->ctx, FILE_NAME, &file), MUSTER_OK);
        refusal = cases[i].refusal;
        assert_int_equal(disk->reserve(disk->ctx, file, SIZE), cases[i].status);
        refusal = 0;
        disk->close(disk->ctx, file);
        assert_int_equal(disk->size(disk->ctx, FILE_NAME, &size), MUSTER_OK);
        assert_int_equal(size, cases[i].status == MUSTER_OK ? SIZE : 0);
    }
    mst_journal_disk_close(opened);
}

/* ---- thousands of them ---- */

static void path_of(const struct stage *stage, uint64_t sequence, char path[128])
{
    char name[MST_FILE_NAME_ROOM];

    mst_file_name(name, MST_FILE_JOURNAL, sequence);
    (void)snprintf(path, 128, "%s/%s", stage->path, name);
}

/* Where the last frame of the file ends. */
static uint64_t end_of(const struct stage *stage, const struct mst_crc *crc, uint64_t sequence)
{
    static unsigned char bytes[65536];
    struct mst_frame_reader reader = {.crc = crc, .sequence = sequence, .offset = MST_FILE_HEAD};
    struct mst_slice payload;
    char path[128];
    ssize_t size;
    int fd;

    path_of(stage, sequence, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    size = read(fd, bytes, sizeof bytes);
    assert_true(size > 0);
    (void)close(fd);
    reader.file = mst_slice_of(bytes, (size_t)size);
    while (mst_frame_next(&reader, &payload) == MST_FRAME_WHOLE) {
    }
    return reader.offset;
}

/* A file that goes on where the one before ends, and holds nothing else. */
static void make_next(const struct stage *stage, const struct mst_crc *crc, uint64_t sequence,
                      uint64_t end)
{
    const struct mst_journal_record record = {.type = MST_RECORD_CONTINUE};
    const struct mst_file_head head = {
        .kind = MST_FILE_JOURNAL, .sequence = sequence, .rules = MST_CORE_RULES};
    size_t payload = MST_RECORD_HEAD + 8, size = MST_FILE_HEAD + mst_frame_bytes(payload);
    unsigned char bytes[256] = {0};
    unsigned char *frame = bytes + MST_FILE_HEAD;
    char path[128];
    int fd;

    mst_file_head_write(bytes, crc, &head);
    mst_record_head_write(frame + MST_FRAME_HEAD, &record, 8);
    mst_put_u64(frame + MST_FRAME_HEAD + MST_RECORD_HEAD, end);
    mst_frame_write(frame, crc, sequence, MST_FILE_HEAD, payload, MST_FILE_HEAD);
    path_of(stage, sequence, path);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    (void)close(fd);
}

static struct mst_journal *recover(struct stage *stage, struct failing_mem *mem,
                                   struct mst_journal_disk **disk, struct mst_core **core)
{
    const struct mst_journal_config config = {
        .core = {.lease_ns = 10000000000u, .limits = mst_limits_default}, .version = "0.1.0"};
    struct mst_journal *journal;

    assert_int_equal(mst_journal_disk_open(disk, stage->path, false, &stage->err), MUSTER_OK);
    if (mst_journal_open(&journal, core, mst_journal_disk_of(*disk), &config, &mem->mem,
                         &stage->err) != MUSTER_OK) {
        fail_msg("%s", stage->err.text);
    }
    return journal;
}

static void die(struct mst_journal *journal, struct mst_journal_disk *disk, struct mst_core *core)
{
    mst_core_free(core);
    mst_journal_free(journal);
    mst_journal_disk_close(disk);
}

/* Services that were killed before they did anything left thousands of files. They are no
 * obstacle. */
static void thousands_of_files_are_no_obstacle(void **state)
{
    struct stage *stage = *state;
    struct mst_journal_disk *disk;
    struct mst_journal *journal;
    struct mst_core *core;
    struct failing_mem mem;
    struct mst_crc crc;
    char path[128];
    uint64_t end;

    mst_crc_init(&crc);
    failing_mem_init(&mem, 0);
    journal = recover(stage, &mem, &disk, &core);
    assert_false(mst_journal_snapshot_due(journal));
    die(journal, disk, core);
    end = end_of(stage, &crc, 1);
    for (uint64_t sequence = 2; sequence <= FILES; sequence++) {
        make_next(stage, &crc, sequence, end);
        end = end_of(stage, &crc, sequence);
    }
    journal = recover(stage, &mem, &disk, &core);
    assert_true(mst_journal_snapshot_due(journal));
    assert_true(mst_journal_snapshot_begin(journal));
    assert_int_equal(mst_journal_snapshot_write(journal), MUSTER_OK);
    mst_journal_snapshot_end(journal, true);
    for (uint64_t sequence = 1; sequence <= FILES + 1; sequence++) {
        path_of(stage, sequence, path);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    die(journal, disk, core);
    assert_int_equal(mem.live, 0);
}

int main(void)
{
#define with_folder(test) cmocka_unit_test_setup_teardown(test, stage_init, stage_fini)
    static const struct CMUnitTest tests[] = {
        with_folder(nobody_removes_what_another_process_holds),
        with_folder(who_is_refused_leaves_nothing_behind),
        with_folder(what_goes_with_it_stays_where_another_process_has_it),
        with_folder(what_is_not_of_a_journal_stays),
        with_folder(one_that_is_not_there_is_not_made_to_be_removed),
        with_folder(it_has_one_owner_however_often_it_is_removed),
        with_folder(one_that_is_removed_just_then_is_made_again),
        with_folder(what_others_may_write_to_is_refused),
        with_folder(another_users_is_refused),
        with_folder(what_it_lies_in_need_not_be_readable),
        with_folder(no_file_leads_anywhere_else),
        with_folder(what_is_no_file_is_not_waited_for),
        with_folder(a_file_system_that_cannot_reserve_is_written_to),
        with_folder(thousands_of_files_are_no_obstacle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
