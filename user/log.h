/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for people, on stderr, one line each, prefixed "pyheaptrace: ".
 * Text that came from a target is escaped by log_* itself: control bytes of
 * the finished line are printed as \xNN.
 */
#ifndef PHT_LOG_H
#define PHT_LOG_H

#include <stddef.h>

/* 0 = errors and warnings (default), 1 = -v info, 2 = -vv debug. */
void log_set_level(int level);
int log_level(void);
/* Finished lines go to fn rather than to stderr; NULL: to stderr again. */
void log_divert(void (*fn)(void *ctx, const char *line), void *ctx);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Until called with NULL, errors of the calling thread go to buf instead of
 * stderr, the last one winning; buf is emptied.
 */
void log_capture(char *buf, size_t len);

/* Log an error and yield err (a negative errno), in one expression. */
#define log_err_r(err, ...) (log_error(__VA_ARGS__), (err))

#endif
