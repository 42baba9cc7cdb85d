/* The platform's answers: extconf.rb defines HAVE_*, this file GYRE_HAVE_*. Included by each C file
 * that depends on one; includes neither ruby.h nor system headers. */
#ifndef GYRE_FEATURE_H
#define GYRE_FEATURE_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* accept4, preadv2, epoll_pwait2; precedes all headers */
#endif
#if defined(HAVE_SYS_EPOLL_H) && defined(HAVE_EPOLL_CREATE1)
#define GYRE_HAVE_EPOLL 1
#endif
#if defined(HAVE_LIBURING_H) && defined(HAVE_IO_URING_SUBMIT_AND_GET_EVENTS)
#define GYRE_HAVE_IO_URING 1
#endif
#ifdef HAVE_EPOLL_PWAIT2 /* glibc 2.35; ENOSYS before Linux 5.11 */
#define GYRE_HAVE_EPOLL_PWAIT2 1
#endif
#if defined(HAVE_SYS_EVENT_H) && defined(HAVE_KQUEUE) && defined(HAVE_CONST_EV_RECEIPT)
#define GYRE_HAVE_KQUEUE 1
#endif
#ifdef HAVE_WINTERNL_H /* Windows */
#define GYRE_HAVE_IOCP 1
#endif
#ifdef HAVE_FORK
#define GYRE_HAVE_FORK 1
#endif
#ifdef HAVE_POLL_H
#define GYRE_HAVE_POLL 1
#endif
#if defined(HAVE_SYS_EVENTFD_H) && defined(HAVE_EVENTFD)
#define GYRE_HAVE_EVENTFD 1
#endif
#if defined(HAVE_SYS_SENDFILE_H) && defined(HAVE_SENDFILE)
#define GYRE_HAVE_SENDFILE 1
#endif
#ifdef HAVE_MADVISE
#define GYRE_HAVE_MADVISE 1
#endif
#ifdef HAVE_ACCEPT4
#define GYRE_HAVE_ACCEPT4 1
#endif
#if defined(HAVE_RECVMMSG) && defined(HAVE_SENDMMSG)
#define GYRE_HAVE_MMSG 1
#endif
#if defined(HAVE_PREADV2) && defined(HAVE_CONST_RWF_NOWAIT)
#define GYRE_HAVE_PREADV2_NOWAIT 1
#endif
#if defined(HAVE_LINUX_MAGIC_H) && defined(HAVE_SYS_VFS_H)
#define GYRE_HAVE_LINUX_MAGIC 1
#endif
#ifdef HAVE_CONST_SYS_PIDFD_OPEN /* ENOSYS before Linux 5.3 */
#define GYRE_HAVE_PIDFD_OPEN 1
#endif
#if defined(HAVE_LINUX_OPENAT2_H) && defined(HAVE_CONST_SYS_OPENAT2) /* ENOSYS before Linux 5.6 */
#define GYRE_HAVE_OPENAT2 1
#endif
#ifdef HAVE_STRUCT_STAT_ST_MTIM
#define GYRE_HAVE_STAT_NANOSECONDS 1
#endif
#ifdef HAVE_CONST_PR_SET_CHILD_SUBREAPER /* Linux 3.4 */
#define GYRE_HAVE_SUBREAPER 1
#endif
#if defined(HAVE_SYS_INOTIFY_H) && defined(HAVE_INOTIFY_INIT1)
#define GYRE_HAVE_INOTIFY 1
#endif
#ifdef HAVE_SSL_GET1_PEER_CERTIFICATE /* OpenSSL 3.0 */
#define GYRE_HAVE_LIBSSL 1
#endif
#ifdef HAVE_NGHTTP2_SESSION_CHANGE_EXTPRI_STREAM_PRIORITY /* libnghttp2 1.50 */
#define GYRE_HAVE_NGHTTP2 1
#endif
#ifdef HAVE_NGHTTP2_OPTION_SET_STREAM_RESET_RATE_LIMIT /* 1.57, and Debian's 1.52 */
#define GYRE_HAVE_NGHTTP2_RESET_RATE 1
#endif
#ifdef HAVE_INFLATERESETKEEP /* zlib 1.2.5.1 */
#define GYRE_HAVE_ZLIB 1
#endif

/* Features of Ruby by version. */
#ifdef HAVE_RB_IO_TIMEOUT /* 3.2 */
#define GYRE_HAVE_IO_TIMEOUT 1
#endif
#ifdef HAVE_RB_IO_MODE /* 3.3 */
#define GYRE_HAVE_IO_MODE 1
#endif
#ifdef HAVE_RB_IO_CLOSED_P /* 3.3 */
#define GYRE_HAVE_IO_CLOSED_P 1
#endif
#ifdef HAVE_OPTIMIZED_RUBY /* its C functions need little stack */
#define GYRE_HAVE_OPTIMIZED_RUBY 1
#endif

/* The single visible name. */
__attribute__((visibility("default"))) void Init_gyre_ext(void);

#endif
