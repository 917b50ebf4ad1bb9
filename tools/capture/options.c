/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/options.c: implements options.h.
 */
#include "capture/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DURATION_MAX 1e9 /* seconds */

static const char usage[] =
	"usage: hikyaku-capture [OPTION]...\n"
	"Writes the frames of Hikyaku's processes in this network namespace as pcapng.\n"
	"`hikyaku capture` finds processes by lab, node and daemon, and then runs this.\n"
	"\n"
	"  -w FILE            write to FILE; -: standard output; without it, only count frames\n"
	"  --pid PID          capture this process; repeat for more\n"
	"  --shared NAME      the processes of the hikyakud whose shared memory has this name;\n"
	"                     without --pid and --shared, all processes of the namespace\n"
	"  --wait             when no process is left, wait for the next one\n"
	"  --pipes            capture pipes, too, where the frames of hikyakud's switch appear "
	"again\n"
	"  --snaplen N        most bytes of a frame to write [65535]\n"
	"  --count N          end after N frames\n"
	"  --duration S       end after S seconds\n"
	"  --buffer MB        ring of each process, a power of two [16]\n"
	"  --job KEY          only frames of this job (hexadecimal)\n"
	"  --endpoint N       only frames from or to this endpoint\n"
	"  --rank N           only frames from or to this rank\n";

enum { WAIT = 256, PIPES, PID, SHARED, SNAPLEN, COUNT, DURATION, BUFFER, JOB, ENDPOINT, RANK };

static const struct option known[] = {{"wait", no_argument, NULL, WAIT},
				      {"pipes", no_argument, NULL, PIPES},
				      {"pid", required_argument, NULL, PID},
				      {"shared", required_argument, NULL, SHARED},
				      {"snaplen", required_argument, NULL, SNAPLEN},
				      {"count", required_argument, NULL, COUNT},
				      {"duration", required_argument, NULL, DURATION},
				      {"buffer", required_argument, NULL, BUFFER},
				      {"job", required_argument, NULL, JOB},
				      {"endpoint", required_argument, NULL, ENDPOINT},
				      {"rank", required_argument, NULL, RANK},
				      {"help", no_argument, NULL, 'h'},
				      {NULL, 0, NULL, 0}};

static int number(const char *name, const char *text, int base, uint64_t min, uint64_t max,
		  uint64_t *out, struct hk_error *err)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, base);
	if (errno == 0 && end != text && *end == '\0' && *text != '-' && *out >= min && *out <= max)
		return 0;
	return hk_error_set(err, -EINVAL, "--%s %.40s: not a number from %llu to %llu%s", name,
			    text, (unsigned long long)min, (unsigned long long)max,
			    base == 16 ? " (hexadecimal)" : "");
}

static int seconds(const char *text, uint64_t *ns, struct hk_error *err)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s > 0) || s > DURATION_MAX)
		return hk_error_set(err, -EINVAL, "--duration %.40s: not a number of seconds",
				    text);
	*ns = (uint64_t)(s * 1e9);
	return 0;
}

static int take(struct hk_capture_options *o, int what, const char *name, const char *text,
		struct hk_error *err)
{
	uint64_t v = 0;
	int rc = 0;

	switch (what) {
	case 'w':
		o->file = text;
		return 0;
	case SHARED:
		o->shared = text;
		return 0;
	case WAIT:
		o->wait = true;
		return 0;
	case PIPES:
		o->source.pipes = true;
		return 0;
	case PID:
		rc = number(name, text, 10, 1, INT32_MAX, &v, err);
		if (rc == 0 && o->pids == HK_CAPTURE_SOURCES)
			rc = hk_error_set(err, -EINVAL, "more than %u processes", o->pids);
		if (rc == 0)
			o->pid[o->pids++] = (pid_t)v;
		return rc;
	case SNAPLEN:
		rc = number(name, text, 10, 1, HK_TAP_SNAPLEN_MAX, &v, err);
		o->snaplen = (uint32_t)v;
		return rc;
	case COUNT:
		return number(name, text, 10, 1, UINT64_MAX, &o->count, err);
	case DURATION:
		return seconds(text, &o->duration_ns, err);
	case BUFFER:
		rc = number(name, text, 10, 1, HK_TAP_SIZE_MAX >> 20, &v, err);
		if (rc == 0 && v & (v - 1))
			rc = hk_error_set(err, -EINVAL, "--buffer %s: not a power of two", text);
		o->source.size = v << 20;
		return rc;
	case JOB:
		rc = number(name, text, 16, 0, UINT32_MAX, &v, err);
		o->filter.by_job = true;
		o->filter.job = (uint32_t)v;
		return rc;
	case ENDPOINT:
		rc = number(name, text, 10, 0, UINT32_MAX, &v, err);
		o->filter.by_endpoint = true;
		o->filter.endpoint = (uint32_t)v;
		return rc;
	case RANK:
		rc = number(name, text, 10, 0, 0xfffff, &v, err);
		o->filter.by_rank = true;
		o->filter.rank = (uint32_t)v;
		return rc;
	default:
		return hk_error_set(err, -EINVAL,
				    "there is no such option, or it lacks its value; "
				    "fix: hikyaku-capture --help lists the options");
	}
}

int hk_capture_options(int argc, char **argv, struct hk_capture_options *o, struct hk_error *err)
{
	int what, index = 0;

	memset(o, 0, sizeof(*o));
	o->snaplen = HK_TAP_SNAPLEN_MAX;
	o->source.size = UINT64_C(16) << 20;
	while ((what = getopt_long(argc, argv, "w:h", known, &index)) >= 0) {
		if (what == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		int rc = take(o, what, known[index].name, optarg, err);

		if (rc)
			return rc;
	}
	if (optind < argc)
		return hk_error_set(err, -EINVAL, "%.80s: not an option", argv[optind]);
	if (o->pids && (o->wait || o->shared))
		return hk_error_set(err, -EINVAL, "--pid excludes --wait and --shared");
	o->source.snaplen = o->snaplen;
	if (hk_filter_any(&o->filter))
		o->source.snaplen = HK_MAX(o->snaplen, (uint32_t)HK_FILTER_BYTES);
	return 0;
}
