// SPDX-License-Identifier: BSD-2-Clause
/* String interning: identity, bounds, order of insertion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "intern.h"

static int setup(void **state)
{
	*state = intern_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	intern_free(*state);
	return 0;
}

static void test_identity(void **state)
{
	struct intern *t = *state;
	char name[] = "handler";
	const char *first = intern(t, name);

	assert_ptr_not_equal(first, name);
	memset(name, 'x', sizeof(name) - 1);
	assert_string_equal(first, "handler");
	assert_ptr_equal(intern(t, "handler"), first);
	assert_ptr_not_equal(intern(t, "handle"), first);
	assert_ptr_equal(intern(t, ""), intern(t, ""));
	assert_null(intern(t, NULL));
	assert_int_equal(intern_count(t), 3);
}

static void test_many_stay_put(void **state)
{
	enum { N = 30000 };
	struct intern *t = *state;
	const char **seen = calloc(N, sizeof(*seen));
	char name[64];

	assert_non_null(seen);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "/srv/app/module_%d.py", i);
		seen[i] = intern(t, name);
	}
	assert_int_equal(intern_count(t), N);
	for (int i = N - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "/srv/app/module_%d.py", i);
		assert_string_equal(seen[i], name);
		assert_ptr_equal(intern(t, name), seen[i]);
	}
	assert_int_equal(intern_count(t), N);
	assert_int_equal(intern_refused(t), 0);
	free(seen);
}

static void test_long_is_cut(void **state)
{
	struct intern *t = *state;
	char *text = malloc(100001);
	const char *cut;

	assert_non_null(text);
	memset(text, 'a', 100000);
	text[100000] = '\0';
	cut = intern(t, text);
	assert_int_equal(strlen(cut), INTERN_MAX_LENGTH);
	text[INTERN_MAX_LENGTH + 1] = 'b';
	assert_ptr_equal(intern(t, text), cut);
	text[INTERN_MAX_LENGTH] = '\0';
	assert_ptr_equal(intern(t, text), cut);
	text[INTERN_MAX_LENGTH - 1] = '\0';
	assert_ptr_not_equal(intern(t, text), cut);
	free(text);
}

static void test_text_is_bounded(void **state)
{
	struct intern *t = *state;
	char name[INTERN_MAX_LENGTH + 1];
	size_t fit = INTERN_MAX_BYTES / sizeof(name);

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < fit; i++) {
		name[snprintf(name, sizeof(name), "%08zu", i)] = 'n';
		assert_string_not_equal(intern(t, name), INTERN_FULL);
	}
	name[snprintf(name, sizeof(name), "%08zu", fit)] = 'n';
	assert_string_equal(intern(t, name), INTERN_FULL);
	assert_int_equal(intern_count(t), fit);
	assert_int_equal(intern_refused(t), 1);
	/* What is in the table can still be found. */
	memcpy(name, "00000007", 8);
	assert_string_equal(intern(t, name), name);
	assert_int_equal(intern_refused(t), 1);
}

static void test_count_is_bounded(void **state)
{
	struct intern *t = *state;
	char name[16];

	for (unsigned int i = 0; i < INTERN_MAX_STRINGS; i++) {
		snprintf(name, sizeof(name), "%x", i);
		intern(t, name);
	}
	assert_int_equal(intern_count(t), INTERN_MAX_STRINGS);
	assert_int_equal(intern_refused(t), 0);
	assert_string_equal(intern(t, "one more"), INTERN_FULL);
	assert_ptr_equal(intern(t, "one more"), intern(t, "and another"));
	assert_int_equal(intern_count(t), INTERN_MAX_STRINGS);
	assert_string_equal(intern(t, "3ffff"), "3ffff");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_identity, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_stay_put, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_text_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_count_is_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
