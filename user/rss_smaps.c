// SPDX-License-Identifier: BSD-2-Clause
#include "rss_smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define SMAPS_MAX    (1u << 20)
#define PAGE	     4096ull
#define STRETCH_MAX  (1ull << 42) /* a bitmap of more pages than this is not made */
#define CHUNK_PAGES  8192
#define PAGEMAP_HERE (1ull << 63)
#define PAGEMAP_PFN  ((1ull << 55) - 1)

struct field {
	const char *name;
	size_t at; /* in struct smap */
};

static const struct field fields[] = {
	{"Rss:", offsetof(struct smap, rss)},
	{"Pss:", offsetof(struct smap, pss)},
	{"Private_Clean:", offsetof(struct smap, private)},
	{"Private_Dirty:", offsetof(struct smap, private)},
	{"Anonymous:", offsetof(struct smap, anon)},
	{"AnonHugePages:", offsetof(struct smap, thp)},
	{"Swap:", offsetof(struct smap, swap)},
	{"Shared_Hugetlb:", offsetof(struct smap, hugetlb)},
	{"Private_Hugetlb:", offsetof(struct smap, hugetlb)},
};

static void strip_deleted(struct proc_map *m)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(m->path), n = sizeof(mark) - 1;

	if (!m->inode || len < n || strcmp(m->path + len - n, mark))
		return;
	m->path[len - n] = '\0';
	m->deleted = true;
}

static bool parse_head(const char *line, struct proc_map *m)
{
	char perms[5] = "";
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m->start,
		   &m->end, perms, &m->offset, &m->dev_major, &m->dev_minor, &m->inode, &at) != 7 ||
	    strlen(perms) != 4 || m->start >= m->end)
		return false;
	m->r = perms[0] == 'r';
	m->w = perms[1] == 'w';
	m->x = perms[2] == 'x';
	m->shared = perms[3] == 's';
	m->path = strdup(at ? line + at : "");
	if (m->path)
		strip_deleted(m);
	return true;
}

static void parse_field(const char *line, struct smap *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		size_t len = strlen(fields[i].name);
		u64 kib;

		if (strncmp(line, fields[i].name, len) || sscanf(line + len, "%" SCNu64, &kib) != 1)
			continue;
		if (kib < 1ull << 44)
			*(u64 *)((char *)s + fields[i].at) += kib * 1024;
		return;
	}
}

static int append(struct smaps *s, size_t *cap, const struct proc_map *m)
{
	if (!m->path)
		return -ENOMEM;
	if (s->n == SMAPS_MAX)
		return -E2BIG;
	if (s->n == *cap) {
		size_t want = *cap ? *cap * 2 : 64;
		struct smap *v = reallocarray(s->v, want, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		*cap = want;
	}
	s->v[s->n++] = (struct smap){.map = *m};
	return 0;
}

int smaps_parse(FILE *f, struct smaps *out)
{
	struct smaps s = {0};
	AUTO_FREE char *line = NULL;
	size_t line_cap = 0, cap = 0;
	int err = 0;

	while (!err && getline(&line, &line_cap, f) > 0) {
		struct proc_map m = {0};

		line[strcspn(line, "\n")] = '\0';
		if (parse_head(line, &m)) {
			err = append(&s, &cap, &m);
			if (err)
				free(m.path);
		} else if (s.n) {
			parse_field(line, &s.v[s.n - 1]);
		}
	}
	if (!err && ferror(f))
		err = -EIO;
	if (err) {
		smaps_free(&s);
		return err;
	}
	*out = s;
	return 0;
}

int smaps_read(pid_t pid, struct smaps *out)
{
	AUTO_FCLOSE FILE *f = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
	return smaps_parse(f, out);
}

void smaps_free(struct smaps *smaps)
{
	for (size_t i = 0; i < smaps->n; i++)
		free(smaps->v[i].map.path);
	free(smaps->v);
	*smaps = (struct smaps){0};
}

/*
 * The frame of the kernel's page of zeros, which pagemap calls present and
 * RSS does not count: it is what a page of ours that was only read has.  0 =
 * frames are hidden from us.
 */
static u64 zero_frame(void)
{
	AUTO_CLOSE int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	u64 entry = 0;
	volatile u8 *p;

	if (fd < 0)
		return 0;
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	if (!p[0] && pread(fd, &entry, 8, (off_t)((uintptr_t)p / PAGE * 8)) != 8)
		entry = 0;
	munmap((void *)p, PAGE);
	return entry & PAGEMAP_PFN;
}

static int read_bits(int fd, struct residency *r, u64 *pages)
{
	u64 zero = zero_frame(), n = (r->end - r->start) / PAGE;
	AUTO_FREE u64 *entries = malloc(CHUNK_PAGES * sizeof(*entries));

	*pages = 0;
	if (!entries)
		return -ENOMEM;
	for (u64 i = 0; i < n; i += CHUNK_PAGES) {
		u64 want = n - i < CHUNK_PAGES ? n - i : CHUNK_PAGES;
		ssize_t got = pread(fd, entries, want * 8, (off_t)((r->start / PAGE + i) * 8));

		if (got != (ssize_t)(want * 8))
			return -EIO;
		for (u64 k = 0; k < want; k++) {
			if (!(entries[k] & PAGEMAP_HERE) ||
			    (zero && (entries[k] & PAGEMAP_PFN) == zero))
				continue;
			r->bits[(i + k) / 64] |= 1ull << (i + k) % 64;
			++*pages;
		}
	}
	return 0;
}

int residency_read(pid_t pid, u64 start, u64 end, u64 rss, struct residency *out)
{
	struct residency r = {.start = start, .end = end};
	u64 size = end - start, pages;
	AUTO_CLOSE int fd = -1;
	char path[64];

	r.share = size ? (double)rss / (double)size : 0;
	if (r.share > 1)
		r.share = 1;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	if (rss && rss < size && size <= STRETCH_MAX)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		r.bits = calloc(size / PAGE / 64 + 1, 8);
		if (!r.bits)
			return -ENOMEM;
		/* Pages come and go between the two files; more than an eighth apart is no use. */
		if (read_bits(fd, &r, &pages) || pages * PAGE > rss + rss / 8 ||
		    pages * PAGE + rss / 8 < rss) {
			free(r.bits);
			r.bits = NULL;
		}
	}
	*out = r;
	return 0;
}

void residency_free(struct residency *r)
{
	free(r->bits);
	*r = (struct residency){0};
}

static bool resident(const struct residency *r, u64 addr)
{
	u64 i = (addr - r->start) / PAGE;

	return r->bits[i / 64] >> i % 64 & 1;
}

u64 residency_bytes(const struct residency *r, u64 from, u64 to)
{
	u64 sum = 0;

	if (from < r->start)
		from = r->start;
	if (to > r->end)
		to = r->end;
	if (from >= to)
		return 0;
	if (!r->bits)
		return (u64)((double)(to - from) * r->share);
	while (from < to) {
		u64 next = (from / PAGE + 1) * PAGE;

		if (next > to)
			next = to;
		if (resident(r, from))
			sum += next - from;
		from = next;
	}
	return sum;
}

u64 residency_next(const struct residency *r, u64 from, u64 end)
{
	if (end > r->end)
		end = r->end;
	if (from < r->start)
		from = r->start;
	if (!r->bits && r->share < 1)
		return end;
	while (r->bits && from < end && !resident(r, from)) {
		u64 i = (from - r->start) / PAGE;

		from += r->bits[i / 64] ? PAGE : (64 - i % 64) * PAGE;
	}
	return from < end ? from : end;
}

u64 residency_whole_pages(const struct residency *r, u64 from, u64 to)
{
	if (from >= to || from > UINT64_MAX - PAGE)
		return 0;
	return residency_bytes(r, (from + PAGE - 1) / PAGE * PAGE, to / PAGE * PAGE);
}
