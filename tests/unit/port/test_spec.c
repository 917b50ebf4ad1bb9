/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_spec.c: the meaning of port specs, and errors for wrong ones.
 */
#include "port/port.h"
#include "port/spec.h"
#include "tests/support/hk_test.h"

#include <errno.h>

static struct hk_spec parse(const char *text)
{
	struct hk_spec s;
	CHECK_OK(hk_spec_parse(text, &s, ERR));
	return s;
}

TEST(memif)
{
	struct hk_spec s = parse("memif:socket=/run/a.sock,role=server,id=3,frame=2048,ring=128");
	CHECK_EQ(s.kind, HK_SPEC_MEMIF);
	CHECK_STR(s.socket, "/run/a.sock");
	CHECK(s.server);
	CHECK_EQ(s.id, 3);
	CHECK_EQ(s.frame, 2048);
	CHECK_EQ(s.ring, 128);
	CHECK(!parse("memif:role=client,socket=/a/b").server);
}

TEST(wire_set)
{
	struct hk_spec s = parse("memif:dir=/run/hk");
	CHECK_EQ(s.kind, HK_SPEC_MEMIF_SET);
	CHECK_STR(s.dir, "/run/hk");
	CHECK_EQ(parse("memif:ring=64,dir=/x").kind, HK_SPEC_MEMIF_SET);
	CHECK(hk_port_spec_is_wire_set("memif:dir=/run/hk"));
	CHECK(!hk_port_spec_is_wire_set("memif:socket=/run/dir=,role=server"));
	CHECK(!hk_port_spec_is_wire_set("af_xdp:iface=dir"));
	CHECK(!hk_port_spec_is_wire_set("rubbish"));
	CHECK_EQ(hk_port_wire_frame_max("memif:dir=/x"), HK_WIRE_SET_FRAME_MAX);
	CHECK_EQ(hk_port_wire_frame_max("memif:dir=/x,frame=2048"), 2048);
	CHECK_EQ(hk_port_wire_frame_max("af_xdp:iface=a"), 0);
}

TEST(the_largest_frame_that_specs_name)
{
	struct hk_eal_config eal = {0};

	CHECK_OK(hk_port_spec_eal("pci:0000:3b:02.1", &eal, ERR));
	CHECK_EQ(eal.frame_max, 0);
	CHECK_OK(hk_port_spec_eal("pci:0000:3b:02.1,frame=9216", &eal, ERR));
	CHECK_OK(hk_port_spec_eal("pci:0000:3b:02.2,frame=2048", &eal, ERR));
	CHECK_EQ(eal.frame_max, 9216);
}

TEST(wires_meet)
{
	char a[256], b[256], c[256];
	bool a_serves, b_serves;
	const char *set = "memif:dir=/run/hk,ring=64;faults=drop=0.5,seed=3";

	CHECK_OK(hk_port_wire_spec(set, 7, 2, 9, a, sizeof(a), &a_serves, ERR));
	CHECK_OK(hk_port_wire_spec(set, 7, 9, 2, b, sizeof(b), &b_serves, ERR));
	CHECK(a_serves && !b_serves);
	struct hk_spec sa = parse(a), sb = parse(b);
	CHECK_STR(sa.socket, sb.socket);
	CHECK(sa.server && !sb.server);
	CHECK_EQ(sa.ring, 64);
	CHECK(sa.faulty && sa.faults.seed == 3);
	/* another pair and another job have other sockets */
	CHECK_OK(hk_port_wire_spec(set, 7, 2, 8, c, sizeof(c), &a_serves, ERR));
	CHECK(strcmp(parse(c).socket, sa.socket) != 0);
	CHECK_OK(hk_port_wire_spec(set, 8, 2, 9, c, sizeof(c), &a_serves, ERR));
	CHECK(strcmp(parse(c).socket, sa.socket) != 0);

	CHECK(hk_port_wire_spec(set, 7, 2, 2, a, sizeof(a), &a_serves, ERR) < 0);
	CHECK(hk_port_wire_spec(set, 7, 2, 3, a, 20, &a_serves, ERR) < 0);
	CHECK(hk_port_wire_spec("af_xdp:iface=a", 7, 2, 3, a, sizeof(a), &a_serves, ERR) < 0);
	char deep[160] = "memif:dir=/";
	memset(deep + 11, 'd', 96);
	deep[107] = '\0';
	CHECK_EQ(hk_port_wire_spec(deep, 7, 2, 3, a, sizeof(a), &a_serves, ERR), -ENAMETOOLONG);
}

TEST(kernel_interfaces)
{
	struct hk_spec s = parse("af_xdp:iface=eth0,queue=5,mode=copy,busy=64");
	CHECK_EQ(s.kind, HK_SPEC_AF_XDP);
	CHECK_EQ(s.queue, 5);
	CHECK_EQ(s.busy, 64);
	CHECK_EQ(s.force, 0);
	CHECK_EQ(s.priority, 0);
	CHECK_EQ(parse("af_xdp:iface=eth0,force=1").force, 1);
	CHECK_EQ(s.mode, HK_SPEC_MODE_COPY);
	s = parse("af_packet:iface=eth0");
	CHECK_EQ(s.kind, HK_SPEC_AF_PACKET);
	CHECK_STR(s.iface, "eth0");
}

TEST(sockets)
{
	struct hk_spec s = parse("udp:addr=10.0.0.1,port=4791,mtu=1400");

	CHECK_EQ(s.kind, HK_SPEC_UDP);
	CHECK_STR(s.addr, "10.0.0.1");
	CHECK_EQ(s.udp_port, 4791);
	CHECK_EQ(s.mtu, 1400);
	s = parse("udp:addr=eth0");
	CHECK(s.udp_port == 0 && s.mtu == 0);
	s = parse("udp:addr=fd00::1,ip=6");
	CHECK(strcmp(s.addr, "fd00::1") == 0 && s.ip == 6);
	CHECK_EQ(hk_spec_parse("udp:addr=eth0,ip=7", &s, ERR), -EINVAL);
	CHECK_EQ(hk_spec_parse("udp:port=4791", &s, ERR), -EINVAL);
	CHECK_EQ(hk_spec_parse("udp:addr=eth0,mtu=575", &s, ERR), -EINVAL);
	CHECK_EQ(hk_spec_parse("udp:addr=eth0,port=0", &s, ERR), -EINVAL);
	CHECK_EQ(hk_spec_parse("udp:addr=eth0,port=65536", &s, ERR), -EINVAL);
}

TEST(priorities)
{
	struct hk_spec s;

	CHECK_EQ(parse("af_xdp:iface=eth0,priority=7").priority, 7);
	CHECK_EQ(parse("af_packet:priority=1,iface=eth0").priority, 1);
	s = parse("pci:0000:3b:02.1,priority=5,rx_vec=1");
	CHECK_EQ(s.priority, 5);
	CHECK_STR(s.device, "0000:3b:02.1,rx_vec=1");
	CHECK_EQ(hk_spec_parse("af_xdp:iface=eth0,priority=8", &s, ERR), -EINVAL);
	CHECK_EQ(hk_spec_parse("memif:dir=/x,priority=1", &s, ERR), -EINVAL);
}

TEST(devices)
{
	struct hk_spec s = parse("pci:0000:3b:02.1");
	CHECK_EQ(s.kind, HK_SPEC_PCI);
	CHECK_STR(s.device, "0000:3b:02.1");
	s = parse("pci:0000:3b:02.1,ring=256,rx_vec=1,frame=2048");
	CHECK_STR(s.device, "0000:3b:02.1,rx_vec=1");
	CHECK_EQ(s.ring, 256);
	CHECK_EQ(s.frame, 2048);
	s = parse("vdev:net_ring0,nodeaction=a:0:CREATE");
	CHECK_EQ(s.kind, HK_SPEC_VDEV);
	CHECK_STR(s.device, "net_ring0,nodeaction=a:0:CREATE");
}

TEST(ranks)
{
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3", 1);
	setenv("OMPI_COMM_WORLD_RANK", "17", 1);
	struct hk_spec s = parse("af_xdp:iface=hk{local_rank}x{rank}");
	CHECK_STR(s.iface, "hk3x17");
	CHECK_STR(s.text, "af_xdp:iface=hk3x17");
	/* Slurm's variables come last: below mpirun they are those of the batch script */
	setenv("SLURM_LOCALID", "0", 1);
	setenv("SLURM_PROCID", "0", 1);
	CHECK_STR(parse("af_xdp:iface=hk{local_rank}x{rank}").iface, "hk3x17");
	unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
	unsetenv("OMPI_COMM_WORLD_RANK");
	setenv("SLURM_LOCALID", "2", 1);
	setenv("SLURM_PROCID", "6", 1);
	CHECK_STR(parse("af_xdp:iface=hk{local_rank}x{rank}").iface, "hk2x6");
	setenv("MPI_LOCALRANKID", "4", 1); /* MPICH's mpiexec, below srun */
	setenv("PMI_RANK", "8", 1);
	CHECK_STR(parse("af_xdp:iface=hk{local_rank}x{rank}").iface, "hk4x8");
	unsetenv("MPI_LOCALRANKID");
	unsetenv("PMI_RANK");
	unsetenv("SLURM_PROCID");
	unsetenv("SLURM_LOCALID");
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3", 1);
	CHECK_REFUSED(hk_spec_parse("af_xdp:iface=hk{rank}", &s, ERR), -EINVAL,
		      "no launcher has given this process a number for {rank}");
}

TEST(faults)
{
	struct hk_spec s = parse("af_packet:iface=a;faults=drop=0.01,dup=1,reorder=0,corrupt=0.5,"
				 "delay=1e-3,delay_us=100,stuck=9,seed=0x10");
	CHECK(s.faulty);
	CHECK(s.faults.drop == 0.01 && s.faults.dup == 1 && s.faults.reorder == 0);
	CHECK(s.faults.corrupt == 0.5 && s.faults.delay == 1e-3);
	CHECK_EQ(s.faults.delay_us, 100);
	CHECK_EQ(s.faults.stuck, 9);
	CHECK_EQ(s.faults.seed, 16);
	CHECK_EQ(parse("af_packet:iface=a;faults=drop=0").faults.delay_us, 200);
	CHECK(!parse("af_packet:iface=a").faulty);
}

TEST(refused)
{
	static const struct {
		const char *spec, *says;
	} bad[] = {
		{"", "kind of port"},
		{"memif", "kind of port"},
		{"tcp:iface=a", "\"tcp\""},
		{"memif:", "socket is missing"},
		{"memif:socket=/a/b", "role is missing"},
		{"memif:role=server", "socket is missing"},
		{"memif:socket=/a/b,role=boss", "role=boss"},
		{"memif:socket=,role=server", "socket is empty"},
		{"memif:socket=/a/b,role=server,colour=red", "\"colour\" is not a key"},
		{"memif:dri=/a", "socket, role, id, frame, ring, or dir=DIRECTORY"},
		{"memif:socket=/a/b,role=server,role=client", "role is given twice"},
		{"memif:socket=/a/b,role=server,id", "\"id\" has no value; fix: write id=VALUE"},
		{"memif:socket=/a/b,shared", "\"shared\" is not a key"},
		{"memif:/run/hk", "\"/run/hk\" has no key; fix: write dir=/run/hk"},
		{"af_xdp:hk0", "\"hk0\" has no key; fix: write iface=hk0"},
		{"af_xdp:hk0,queue=1", "fix: write iface=hk0"},
		{"af_xdp:iface", "\"iface\" has no value; fix: write iface=VALUE"},
		{"af_packet:hk0", "fix: write iface=hk0"},
		{"udp:eth0", "fix: write addr=eth0"},
		{"memif:socket=/a/b,role=server,id=-1", "id=-1"},
		{"memif:socket=/a/b,role=server,id=1x", "id=1x"},
		{"memif:socket=/a/b,role=server,id=", "id="},
		{"memif:socket=/a/b,role=server,id=65536", "65535"},
		{"memif:socket=/a/b,role=server,ring=99999999999999999999", "ring="},
		{"memif:dir=/a,role=server", "\"role\" is not a key"},
		{"memif:dir=/a,dir=/b", "twice"},
		{"af_xdp:iface=a-name-of-16-bytes", "longer than 15"},
		{"af_xdp:queue=1", "iface is missing"},
		{"af_xdp:iface=a,mode=generic", "mode=auto or mode=copy"},
		{"af_packet:iface=a,queue=1", "\"queue\" is not a key"},
		{"pci:", "missing"},
		{"pci:9999", "lspci -D"},
		{"pci:frame=2048", "not a PCI address"},
		{"pci:0000:3b:02.1,ring=4", "ring=4"},
		{"vdev:", "missing"},
		{"af_packet:iface={host}", "{local_rank}"},
		{"af_packet:iface=a;drop=1", "\";drop=1\""},
		{"af_packet:iface=a;faults=drop=2", "drop=2"},
		{"af_packet:iface=a;faults=drop=-0.1", "drop=-0.1"},
		{"af_packet:iface=a;faults=drop=nan", "drop=nan"},
		{"af_packet:iface=a;faults=drop=0.1x", "drop=0.1x"},
		{"af_packet:iface=a;faults=drop", "\"drop\""},
		{"af_packet:iface=a;faults=loss=0.1", "\"loss\""},
		{"af_packet:iface=a;faults=seed=x", "seed=x"},
		{"af_packet:iface=a;faults=delay_us=0", "delay_us=0"},
		{"af_packet:iface=a;faults=stuck=0", "stuck=0"},
	};
	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_spec s;
		CHECK_MSG(hk_spec_parse(bad[i].spec, &s, ERR) == -EINVAL, "%s is accepted",
			  bad[i].spec);
		CHECK_HAS(hk_test_err.text, bad[i].says, "fix: ");
		CHECK_EQ(hk_spec_parse(bad[i].spec, &s, NULL), -EINVAL);
	}
	char longer[400];
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "vdev:", 5);
	longer[399] = '\0';
	struct hk_spec s;
	CHECK_EQ(hk_spec_parse(longer, &s, ERR), -EINVAL);
}

TEST(lists)
{
	char spec[3][HK_PORT_SPEC_MAX], longer[600];

	CHECK_EQ(hk_port_list_split("af_xdp:iface=a", spec, 3, ERR), 1);
	CHECK_STR(spec[0], "af_xdp:iface=a");
	CHECK_EQ(
		hk_port_list_split("memif:dir=/c++/a+b;faults=drop=1+pci:0:1+vdev:x", spec, 3, ERR),
		3);
	CHECK_STR(spec[0], "memif:dir=/c++/a+b;faults=drop=1");
	CHECK_STR(spec[1], "pci:0:1");
	CHECK_STR(spec[2], "vdev:x");

	CHECK_EQ(hk_port_list_split("", spec, 3, ERR), -EINVAL);
	CHECK_REFUSED(hk_port_list_split("pci:1+pci:2+pci:3+pci:4", spec, 3, ERR), -EINVAL,
		      "more than 3 ports");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CHECK_REFUSED(hk_port_list_split(longer, spec, 3, ERR), -EINVAL, "longer than 255");
}

/* Any bytes are parsed or refused; the sanitizers check the accesses. */
TEST(any_bytes)
{
	static const char *const pieces[] = {
		"memif:", "af_xdp:", "af_packet:", "pci:", "vdev:",   "socket=", "role=",
		"server", ",",       "=",          ";",    "faults=", "drop=",   "0.5",
		"iface=", "{rank}",  "{",          "dir=", "/",       "ring=64", "+"};
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	for (int i = 0; i < 20000; i++) {
		char text[400] = "";
		for (uint64_t k = hk_rng_below(&hk_test_rng, 12); k; k--)
			strcat(text, pieces[hk_rng_below(&hk_test_rng, HK_ARRAY_LEN(pieces))]);
		for (uint64_t k = hk_rng_below(&hk_test_rng, 3); k && *text; k--)
			text[hk_rng_below(&hk_test_rng, strlen(text))] = (char)hk_rng_range(
				&hk_test_rng, 1, 255);
		struct hk_spec s;
		int rc = hk_spec_parse(text, &s, ERR);
		char spec[8][HK_PORT_SPEC_MAX];

		CHECK(rc == 0 || (rc == -EINVAL && *hk_test_err.text));
		hk_port_list_split(text, spec, HK_ARRAY_LEN(spec), ERR);
	}
}
