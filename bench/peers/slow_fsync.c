/* Makes every fsync of a program slower: `slow_fsync MICROSECONDS COMMAND...`.
 *
 * A seccomp filter stops fsync, fdatasync and msync of the command, and of all that it starts, in
 * the kernel; a process beside it waits the time and lets the call go on. So it does not matter in
 * which language the program is written, or whether it calls the C library: a Go program does not.
 * The calls of several threads wait side by side. The command has the id of this process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int listener;
static struct timespec delay;

static void die(const char *what) {
    perror(what);
    exit(125);
}

static int install(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fdatasync, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_msync, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no_new_privs");
    int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                     &program);
    if (fd < 0) die("seccomp");
    return fd;
}

static void *serve(void *unused) {
    (void)unused;
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer;
    for (;;) {
        memset(&asked, 0, sizeof asked);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) {
            if (errno == EINTR || errno == ENOENT) continue;
            return NULL;
        }
        nanosleep(&delay, NULL);
        memset(&answer, 0, sizeof answer);
        answer.id = asked.id;
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

static int take(int from) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    int fd;
    if (recvmsg(from, &message, 0) != 1 || !CMSG_FIRSTHDR(&message)) {
        fputs("slow_fsync: the filter was not installed\n", stderr);
        exit(125);
    }
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void give(int to, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(to, &message, 0) != 1) die("sendmsg");
}

int main(int count, char **words) {
    int ends[2], status;
    if (count < 3) {
        fputs("usage: slow_fsync MICROSECONDS COMMAND...\n", stderr);
        return 125;
    }
    long microseconds = atol(words[1]);
    delay.tv_sec = microseconds / 1000000;
    delay.tv_nsec = microseconds % 1000000 * 1000;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) die("socketpair");
    /* The command keeps this process's id, so that who signals or measures it does so directly. */
    pid_t watcher = fork();
    if (watcher < 0) die("fork");
    if (watcher == 0) {
        if (fork() > 0) _exit(0);
        close(ends[1]);
        listener = take(ends[0]);
        close(ends[0]);
        /* Rounded up by the default slack of timers otherwise. */
        prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
        pthread_t thread;
        for (int each = 0; each < 7; each++) pthread_create(&thread, NULL, serve, NULL);
        struct pollfd gone = {.fd = listener, .events = POLLIN};
        /* A listener whose last process has ended hangs up. */
        for (;;) {
            poll(&gone, 1, -1);
            if (gone.revents & (POLLHUP | POLLERR)) _exit(0);
            struct timespec pause = {.tv_nsec = 50000000};
            nanosleep(&pause, NULL);
        }
    }
    waitpid(watcher, &status, 0);
    close(ends[0]);
    int fd = install();
    give(ends[1], fd);
    close(fd);
    close(ends[1]);
    execvp(words[2], words + 2);
    die(words[2]);
}
