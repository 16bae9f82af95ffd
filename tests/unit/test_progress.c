// SPDX-License-Identifier: BSD-2-Clause
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "log.h"
#include "progress.h"

static void lines(void **state)
{
	char buf[128];

	(void)state;
	progress_line(buf, sizeof(buf), "reading", 1, 4, 80);
	assert_string_equal(buf, "reading: 25%");
	progress_line(buf, sizeof(buf), "reading", 5, 4, 80);
	assert_string_equal(buf, "reading: 100%");
	progress_line(buf, sizeof(buf), "blocks", 12345, 0, 80);
	assert_string_equal(buf, "blocks: 12.3k");
	/* Never the last column, whatever the width. */
	progress_line(buf, sizeof(buf), "reading", 1, 4, 10);
	assert_string_equal(buf, "reading..");
	progress_line(buf, sizeof(buf), "reading", 1, 4, 1);
	assert_string_equal(buf, "");
	progress_line(buf, sizeof(buf), "\x1b[2J", 0, 0, 80);
	assert_string_equal(buf, "\\x1b[2J: 0");
}

/* stderr is no terminal here: not one byte. */
static void silent(void **state)
{
	FILE *f = tmpfile();
	int saved = dup(STDERR_FILENO);

	(void)state;
	assert_non_null(f);
	assert_true(dup2(fileno(f), STDERR_FILENO) >= 0);
	for (int i = 0; i < 1000; i++)
		progress_at("work", i, 1000);
	progress_say("words");
	progress_end();
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_int_equal(lseek(fileno(f), 0, SEEK_END), 0);
	fclose(f);
}

static char got[128];

static void take(void *ctx, const char *line)
{
	*(int *)ctx += 1;
	snprintf(got, sizeof(got), "%s", line);
}

/* What is diverted is as harmless as what is printed. */
static void messages_are_diverted(void **state)
{
	int n = 0;

	(void)state;
	log_divert(take, &n);
	log_warn("a name: %s", "\x1b[2J\xc2\x9b");
	log_divert(NULL, NULL);
	assert_int_equal(n, 1);
	assert_string_equal(got, "pyheaptrace: warning: a name: \\x1b[2J\\x9b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(silent),
		cmocka_unit_test(messages_are_diverted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
