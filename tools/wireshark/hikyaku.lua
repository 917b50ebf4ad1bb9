-- SPDX-License-Identifier: BSD-3-Clause
--
-- Wireshark dissector for Hikyaku frames (EtherType 0x88B5) and for messages of rtc nodes (0x88B6;
-- over UDP by "Decode As"). docs/wire.md has the layout. The dissector adds an expert info for
-- every rule of that page that a frame breaks, and verifies the checksum.
--
--   wireshark -X lua_script:tools/wireshark/hikyaku.lua capture.pcap
--   tshark    -X lua_script:tools/wireshark/hikyaku.lua -r capture.pcap -Y hikyaku -V
--
-- Or copy it to the "Personal Lua Plugins" folder that Help > About Wireshark > Folders names.
-- Try the filters hikyaku.type == "ACK", hikyaku.flags.resent, hikyaku.malformed, hikyaku.crc.bad.

local VERSION = 2
local HEADER_LEN, GRANT_LEN, PUT_LEN, SACK_MAX, CRC_LEN = 48, 8, 16, 1024, 4
local BARE, CRC, AUTH, SEAL = 0, 1, 2, 3
local SEAL_LEN, CLEAR_LEN = 24, 24
local AM_GET, GET_LEN = 255, 40
local AM_ATOMIC, ATOMIC_LEN = 254, 40
local AM_BUNDLE, RECORD_LEN = 253, 4
local MAX_FRAGS = 16
local DATA, PUT, ACK, RESET, BYE, MCAST = 1, 2, 3, 4, 5, 6
local FLAG_ACK_NOW, FLAG_RESENT, FLAG_NOT_POLLING = 0x01, 0x02, 0x04
local FLAG_GRANT, FLAG_BULK, FLAG_UNKNOWN = 0x08, 0x10, 0xe0

local type_names = { [DATA] = "DATA", [PUT] = "PUT", [ACK] = "ACK", [RESET] = "RESET",
	[BYE] = "BYE", [MCAST] = "MCAST" }

local hikyaku = Proto("hikyaku", "Hikyaku frame")

local f = {
	version = ProtoField.uint8("hikyaku.version", "Version", base.DEC, nil, 0xf0),
	protection = ProtoField.uint8("hikyaku.protection", "Protection", base.DEC,
		{ [BARE] = "off", [CRC] = "crc", [AUTH] = "auth", [SEAL] = "seal" }, 0x0f),
	key_index = ProtoField.uint8("hikyaku.key_index", "Index of the key"),
	type = ProtoField.uint8("hikyaku.type", "Type", base.DEC, type_names),
	flags = ProtoField.uint8("hikyaku.flags", "Flags", base.HEX),
	flag_ack_now = ProtoField.bool("hikyaku.flags.ack_now", "Acknowledge now", 8, nil,
		FLAG_ACK_NOW),
	flag_resent = ProtoField.bool("hikyaku.flags.resent", "Sent before", 8, nil, FLAG_RESENT),
	flag_not_polling = ProtoField.bool("hikyaku.flags.not_polling", "Receiver is not polling",
		8, nil, FLAG_NOT_POLLING),
	flag_grant = ProtoField.bool("hikyaku.flags.grant", "A grant follows", 8, nil, FLAG_GRANT),
	flag_bulk = ProtoField.bool("hikyaku.flags.bulk", "Counts against grants", 8, nil,
		FLAG_BULK),
	flag_unknown = ProtoField.uint8("hikyaku.flags.unknown", "Unknown flags", base.HEX, nil,
		FLAG_UNKNOWN),
	len = ProtoField.uint16("hikyaku.len", "Length of extensions and payload"),
	credit = ProtoField.uint16("hikyaku.credit", "Credit (packets)"),
	job = ProtoField.uint32("hikyaku.job", "Job key", base.HEX),
	src = ProtoField.uint32("hikyaku.src", "Source endpoint"),
	dst = ProtoField.uint32("hikyaku.dst", "Destination endpoint"),
	src_epoch = ProtoField.uint32("hikyaku.src_epoch", "Source epoch", base.HEX),
	dst_epoch = ProtoField.uint32("hikyaku.dst_epoch", "Destination epoch", base.HEX),
	psn = ProtoField.uint32("hikyaku.psn", "Packet number"),
	ack = ProtoField.uint32("hikyaku.ack", "Cumulative ack"),
	tsval = ProtoField.uint32("hikyaku.tsval", "Timestamp value (16 ns)"),
	tsecr = ProtoField.uint32("hikyaku.tsecr", "Timestamp echo (16 ns)"),
	refused = ProtoField.uint32("hikyaku.refused_epoch", "Refused epoch", base.HEX),
	am = ProtoField.uint8("hikyaku.am", "Active-message id", base.HEX),
	frag = ProtoField.uint8("hikyaku.frag", "Fragment"),
	frags = ProtoField.uint8("hikyaku.frags", "Fragments of the message"),
	first = ProtoField.uint32("hikyaku.first_psn", "First packet of the message"),
	marks = ProtoField.uint8("hikyaku.marks", "Frames with a congestion mark, modulo 256"),
	granted = ProtoField.uint32("hikyaku.grant.granted", "Granted (bytes)"),
	wanted = ProtoField.uint32("hikyaku.grant.wanted", "Wanted (bytes)"),
	record_len = ProtoField.uint16("hikyaku.bundle.len", "Length of the message"),
	record_am = ProtoField.uint8("hikyaku.bundle.am", "Active-message id", base.HEX),
	record = ProtoField.bytes("hikyaku.bundle.message", "Message"),
	region = ProtoField.uint32("hikyaku.put.region", "Region", base.HEX),
	xfer = ProtoField.uint32("hikyaku.put.xfer", "Transfer", base.HEX),
	offset = ProtoField.uint64("hikyaku.put.offset", "Offset", base.HEX),
	get_status = ProtoField.uint32("hikyaku.get.status", "Get", base.DEC,
		{ [0] = "request", [1] = "busy", [2] = "denied" }),
	get_region = ProtoField.uint32("hikyaku.get.region", "From region", base.HEX),
	get_offset = ProtoField.uint64("hikyaku.get.offset", "From offset", base.HEX),
	get_len = ProtoField.uint64("hikyaku.get.len", "Length", base.DEC),
	get_to_offset = ProtoField.uint64("hikyaku.get.to_offset", "To offset", base.HEX),
	get_to_region = ProtoField.uint32("hikyaku.get.to_region", "To region", base.HEX),
	atomic_op = ProtoField.uint8("hikyaku.atomic.op", "Operation", base.DEC,
		{ [0] = "fence", [1] = "add", [2] = "and", [3] = "or", [4] = "xor", [5] = "swap",
		  [6] = "compare-and-swap", [7] = "write", [8] = "read",
		  [9] = "procedure call" }),
	atomic_size = ProtoField.uint8("hikyaku.atomic.size", "Size of operands"),
	atomic_status = ProtoField.uint8("hikyaku.atomic.status", "Status", base.DEC,
		{ [0] = "request", [1] = "reply", [2] = "refusal" }),
	atomic_token = ProtoField.uint32("hikyaku.atomic.token", "Token", base.HEX),
	atomic_region = ProtoField.uint32("hikyaku.atomic.region", "Region", base.HEX),
	atomic_len = ProtoField.uint32("hikyaku.atomic.len", "Length", base.DEC),
	atomic_offset = ProtoField.uint64("hikyaku.atomic.offset", "Offset", base.HEX),
	atomic_operand = ProtoField.uint64("hikyaku.atomic.operand", "Operand or old value",
		base.HEX),
	atomic_compare = ProtoField.uint64("hikyaku.atomic.compare", "Compare", base.HEX),
	bitmap = ProtoField.bytes("hikyaku.sack.bitmap", "Selective-ack bitmap"),
	sack = ProtoField.uint32("hikyaku.sack.psn", "Arrived packet"),
	payload = ProtoField.bytes("hikyaku.payload", "Payload"),
	crc = ProtoField.uint32("hikyaku.crc", "CRC32C", base.HEX),
	counter = ProtoField.uint64("hikyaku.counter", "Counter of protected frames"),
	tag = ProtoField.bytes("hikyaku.tag", "Tag"),
	encrypted = ProtoField.bytes("hikyaku.encrypted", "Encrypted"),
	padding = ProtoField.bytes("hikyaku.padding", "Padding"),
}
hikyaku.fields = f

local e = {
	short = ProtoExpert.new("hikyaku.malformed.short",
		"Shorter than its headers or its length field require", expert.group.MALFORMED,
		expert.severity.ERROR),
	version = ProtoExpert.new("hikyaku.malformed.version", "Unknown version",
		expert.group.UNDECODED, expert.severity.WARN),
	type = ProtoExpert.new("hikyaku.malformed.type", "Unknown type", expert.group.MALFORMED,
		expert.severity.ERROR),
	field = ProtoExpert.new("hikyaku.malformed.field", "Field outside its range",
		expert.group.MALFORMED, expert.severity.ERROR),
	crc = ProtoExpert.new("hikyaku.crc.bad", "Wrong checksum", expert.group.CHECKSUM,
		expert.severity.ERROR),
	resent = ProtoExpert.new("hikyaku.resent", "Not the first transmission of this packet",
		expert.group.SEQUENCE, expert.severity.NOTE),
	gaps = ProtoExpert.new("hikyaku.gaps",
		"Packets are missing or out of order at the receiver", expert.group.SEQUENCE,
		expert.severity.NOTE),
	reset = ProtoExpert.new("hikyaku.reset", "The destination's incarnation has ended",
		expert.group.SEQUENCE, expert.severity.WARN),
}
hikyaku.experts = { e.short, e.version, e.type, e.field, e.crc, e.resent, e.gaps, e.reset }

-- Not every version of Wireshark's Lua (5.1 to 5.4) has bit operators. Its `bit` module has them,
-- for 32 bits.
local band, bxor, rshift, tobit = bit.band, bit.bxor, bit.rshift, bit.tobit

local crc_table = {}
for i = 0, 255 do
	local c = i
	for _ = 1, 8 do
		c = band(c, 1) == 1 and bxor(rshift(c, 1), 0x82f63b78) or rshift(c, 1)
	end
	crc_table[i] = c
end

local function crc32c(range)
	local bytes = range:bytes()
	local c = tobit(0xffffffff)
	for i = 0, bytes:len() - 1 do
		c = bxor(rshift(c, 8), crc_table[band(bxor(c, bytes:get_index(i)), 0xff)])
	end
	return bxor(c, 0xffffffff) % 0x100000000 -- as an unsigned number
end

-- Adds an expert info for a broken rule, which `what` names.
local function malformed(tree, item, what)
	tree:add_proto_expert_info(item or e.field, what)
end

local function add_grant(tree, tvb, at, len)
	if len < GRANT_LEN then
		malformed(tree, e.field, "GRANT: len is below " .. GRANT_LEN)
		return nil
	end
	tree:add_le(f.granted, tvb(at, 4))
	tree:add_le(f.wanted, tvb(at + 4, 4))
	return GRANT_LEN
end

local function add_put(tree, tvb, at, len)
	if len < PUT_LEN then
		malformed(tree, e.field, "PUT: len is below that of its extensions")
		return nil
	end
	tree:add_le(f.region, tvb(at, 4))
	tree:add_le(f.xfer, tvb(at + 4, 4))
	tree:add_le(f.offset, tvb(at + 8, 8))
	return PUT_LEN
end

local function add_sack(tree, tvb, at, len, ack)
	if len % 8 ~= 0 or len > SACK_MAX then
		malformed(tree, e.field, "ACK: the bitmap has not a multiple of 8 bytes up to " ..
			SACK_MAX)
		return nil
	elseif len == 0 then
		return 0
	end
	local item = tree:add(f.bitmap, tvb(at, len))
	local count = 0
	for i = 0, len * 8 - 1 do
		local byte = tvb(at + math.floor(i / 8), 1)
		if band(rshift(byte:uint(), i % 8), 1) == 1 then
			count = count + 1
			item:add(f.sack, byte, (ack + i) % 0x100000000)
			if i == 0 then
				malformed(item, e.field,
					"ACK: bit 0 is set, but that packet is the missing one")
			end
		end
	end
	item:append_text(" (" .. count .. " beyond the first that is missing)")
	if count > 0 then
		item:add_proto_expert_info(e.gaps)
	end
	return len
end

-- Adds the base header. Returns its fields for the rest, or nil if version or type is unknown.
local function add_header(tree, tvb)
	local h = {
		protection = band(tvb(0, 1):uint(), 0x0f), len = tvb(2, 2):le_uint(),
		src = tvb(8, 4):le_uint(), dst = tvb(12, 4):le_uint(),
		type = tvb(24, 1):uint(), flags = tvb(25, 1):uint(), psn = tvb(28, 4):le_uint(),
		ack = tvb(32, 4):le_uint(), am = tvb(44, 1):uint(),
		frag = tvb(45, 1):uint(), frags = tvb(46, 1):uint(),
	}
	tree:add(f.version, tvb(0, 1))
	tree:add(f.protection, tvb(0, 1))
	if rshift(tvb(0, 1):uint(), 4) ~= VERSION or h.protection > SEAL then
		tree:add_proto_expert_info(e.version)
		return nil
	end
	local key_index = tree:add(f.key_index, tvb(1, 1))
	if h.protection < AUTH and tvb(1, 1):uint() ~= 0 then
		malformed(key_index, e.field, "only a frame with a tag has a key")
	end
	tree:add_le(f.len, tvb(2, 2))
	tree:add_le(f.job, tvb(4, 4))
	tree:add_le(f.src, tvb(8, 4))
	tree:add_le(f.dst, tvb(12, 4))
	for _, epoch in ipairs({ { "src_epoch", 16 }, { "dst_epoch", 20 } }) do
		local name, at = epoch[1], epoch[2]
		local item = tree:add_le(f[name], tvb(at, 4))
		if tvb(at, 4):le_uint() == 0 then
			malformed(item, e.field, name .. " is 0")
		end
	end
	if h.protection == SEAL then
		return h
	end
	local type_item = tree:add(f.type, tvb(24, 1))
	local flags = tree:add(f.flags, tvb(25, 1))
	flags:add(f.flag_ack_now, tvb(25, 1))
	flags:add(f.flag_not_polling, tvb(25, 1))
	local grant = flags:add(f.flag_grant, tvb(25, 1))
	local bulk = flags:add(f.flag_bulk, tvb(25, 1))
	local resent = flags:add(f.flag_resent, tvb(25, 1))
	if band(h.flags, FLAG_RESENT) ~= 0 then
		resent:add_proto_expert_info(e.resent)
	end
	if band(h.flags, FLAG_UNKNOWN) ~= 0 then
		malformed(flags:add(f.flag_unknown, tvb(25, 1)), e.field, "unknown flags")
	end
	if type_names[h.type] and h.type > ACK and band(h.flags, FLAG_GRANT) ~= 0 then
		malformed(grant, e.field, "GRANT is for DATA, PUT and ACK only")
	end
	if type_names[h.type] and h.type > PUT and band(h.flags, FLAG_BULK) ~= 0 then
		malformed(bulk, e.field, "BULK is for DATA and PUT only")
	end
	tree:add_le(f.credit, tvb(26, 2))
	tree:add_le(f.psn, tvb(28, 4))
	tree:add_le(f.ack, tvb(32, 4))
	tree:add_le(f.tsval, tvb(36, 4))
	tree:add_le(h.type == RESET and f.refused or f.tsecr, tvb(40, 4))
	tree:add(f.am, tvb(44, 1))
	local frag = tree:add(f.frag, tvb(45, 1))
	local frags = tree:add(f.frags, tvb(46, 1))
	if h.type == DATA then
		if h.frags < 1 or h.frags > MAX_FRAGS then
			malformed(frags, e.field, "DATA: frags is not 1 to " .. MAX_FRAGS)
		elseif h.frag >= h.frags then
			malformed(frag, e.field, "DATA: frag is not below frags")
		else
			local first = (h.psn - h.frag) % 0x100000000
			tree:add(f.first, tvb(28, 4), first):set_generated()
		end
	elseif type_names[h.type] and (h.am ~= 0 or h.frag ~= 0 or h.frags ~= 0) then
		malformed(frags, e.field, "am, frag and frags are for DATA only")
	end
	tree:add(f.marks, tvb(47, 1))
	if not type_names[h.type] then
		type_item:add_proto_expert_info(e.type)
		return nil
	end
	return h
end

local function add_checksum(tree, tvb, at)
	local item = tree:add_le(f.crc, tvb(at, CRC_LEN))
	local want = crc32c(tvb(0, at))
	if tvb(at, CRC_LEN):le_uint() == want then
		item:append_text(" [correct]")
	else
		item:append_text(string.format(" [wrong, should be 0x%08x]", want))
		item:add_proto_expert_info(e.crc)
	end
end

-- The trailer of a frame with a tag, which only the owners of the key can check.
local function add_tag(tree, tvb, at)
	tree:add_le(f.counter, tvb(at, 8))
	tree:add(f.tag, tvb(at + 8, 16))
end

-- A frame of which only the first fields can be read.
local function add_sealed(tree, tvb, pinfo, h)
	local text = string.format("sealed  %08x > %08x  %u bytes", h.src, h.dst, h.len)
	local finish = HEADER_LEN + h.len

	tree:add(f.encrypted, tvb(CLEAR_LEN, finish - CLEAR_LEN))
	add_tag(tree, tvb, finish)
	if tvb:len() > finish + SEAL_LEN then
		tree:add(f.padding, tvb(finish + SEAL_LEN))
	end
	pinfo.cols.info = text
	tree:append_text(", " .. text)
	return tvb:len()
end

local function add_get(tree, tvb, at)
	tree:add_le(f.get_status, tvb(at, 4))
	tree:add_le(f.get_region, tvb(at + 4, 4))
	tree:add_le(f.get_offset, tvb(at + 8, 8))
	tree:add_le(f.get_len, tvb(at + 16, 8))
	tree:add_le(f.get_to_offset, tvb(at + 24, 8))
	tree:add_le(f.get_to_region, tvb(at + 32, 4))
end

local function add_atomic(tree, tvb, at)
	tree:add(f.atomic_op, tvb(at, 1))
	tree:add(f.atomic_size, tvb(at + 1, 1))
	tree:add(f.atomic_status, tvb(at + 2, 1))
	tree:add_le(f.atomic_token, tvb(at + 4, 4))
	tree:add_le(f.atomic_region, tvb(at + 8, 4))
	tree:add_le(f.atomic_len, tvb(at + 12, 4))
	tree:add_le(f.atomic_offset, tvb(at + 16, 8))
	tree:add_le(f.atomic_operand, tvb(at + 24, 8))
	tree:add_le(f.atomic_compare, tvb(at + 32, 8))
end

local function add_bundle(tree, tvb, at, finish)
	while at + RECORD_LEN <= finish do
		local len, am = tvb(at, 2):le_uint(), tvb(at + 2, 1):uint()
		local item = tree:add_le(f.record_len, tvb(at, 2))

		if am >= AM_BUNDLE or tvb(at + 3, 1):uint() ~= 0
			or at + RECORD_LEN + len > finish then
			malformed(item, e.field, "bundle: a record breaks a rule")
			return
		end
		item:add(f.record_am, tvb(at + 2, 1))
		if len > 0 then
			item:add(f.record, tvb(at + RECORD_LEN, len))
		end
		at = at + math.ceil((RECORD_LEN + len) / 4) * 4
	end
end

local function describe(h, payload)
	if h.type == MCAST then
		return string.format("MCAST %u → channel %u  piece %u  %u bytes", h.src, h.dst,
			h.psn, payload)
	end
	local text = string.format("%s %u → %u  psn %u  ack %u", type_names[h.type], h.src, h.dst,
		h.psn, h.ack)
	if h.type == DATA then
		text = text .. string.format("  am 0x%02x", h.am)
		if h.frags > 1 then
			text = text .. string.format("  fragment %u of %u", h.frag + 1, h.frags)
		end
	end
	if h.type == DATA or h.type == PUT then
		text = text .. string.format("  %u bytes", payload)
	end
	if band(h.flags, FLAG_RESENT) ~= 0 then
		text = text .. "  [resent]"
	end
	return text
end

function hikyaku.dissector(tvb, pinfo, root)
	pinfo.cols.protocol = "Hikyaku"
	local tree = root:add(hikyaku, tvb())

	if tvb:reported_len() < HEADER_LEN then
		tree:add_proto_expert_info(e.short)
		pinfo.cols.info = "Hikyaku, too short for a header"
		return tvb:len()
	end
	local h = add_header(tree, tvb)
	if not h then
		pinfo.cols.info = "Hikyaku, version or type unknown"
		return tvb:len()
	end
	local trailers = { [CRC] = CRC_LEN, [AUTH] = SEAL_LEN, [SEAL] = SEAL_LEN }
	local trailer = trailers[h.protection] or 0
	local finish = HEADER_LEN + h.len
	if finish + trailer > tvb:reported_len() then
		malformed(tree, e.short, "len exceeds the frame")
		pinfo.cols.info = "Hikyaku, shorter than its length field"
		return tvb:len()
	end
	if tvb:len() < finish + trailer then
		pinfo.cols.info = (h.protection == SEAL and "sealed" or describe(h, h.len))
			.. "  [cut short by the capture]"
		return tvb:len()
	end
	if h.protection == SEAL then
		return add_sealed(tree, tvb, pinfo, h)
	end

	local ext, more = 0, 0
	if h.type <= ACK and band(h.flags, FLAG_GRANT) ~= 0 then
		ext = add_grant(tree, tvb, HEADER_LEN, h.len)
	end
	if ext and h.type == PUT then
		more = add_put(tree, tvb, HEADER_LEN + ext, h.len - ext)
	elseif ext and h.type == ACK then
		more = add_sack(tree, tvb, HEADER_LEN + ext, h.len - ext, h.ack)
	elseif h.type == RESET then
		tree:add_proto_expert_info(e.reset)
	end
	ext = ext and more and ext + more
	if (h.type == RESET or h.type == BYE) and h.len ~= 0 then
		malformed(tree, e.field, type_names[h.type] .. ": len is not 0")
		ext = nil
	end
	if h.type == MCAST
		and tvb(26, 2):le_uint() + h.ack + tvb(36, 4):le_uint() + tvb(40, 4):le_uint()
			+ tvb(47, 1):uint() ~= 0 then
		malformed(tree, e.field, "MCAST: credit, ack, tsval, tsecr and marks are not 0")
	end
	local at = HEADER_LEN + (ext or 0)
	if ext and h.type == DATA and h.am == AM_GET and h.len - ext == GET_LEN then
		add_get(tree, tvb, at)
	elseif ext and h.type == DATA and h.am == AM_ATOMIC and h.len - ext >= ATOMIC_LEN then
		add_atomic(tree, tvb, at)
	elseif ext and h.type == DATA and h.am == AM_BUNDLE then
		add_bundle(tree, tvb, at, finish)
	end
	if ext and h.len > ext then
		tree:add(f.payload, tvb(HEADER_LEN + ext, h.len - ext))
	end
	if h.protection == CRC then
		add_checksum(tree, tvb, finish)
	elseif h.protection == AUTH then
		add_tag(tree, tvb, finish)
	end
	finish = finish + trailer
	if tvb:len() > finish then
		tree:add(f.padding, tvb(finish))
	end
	local text = describe(h, h.len - (ext or 0))
	pinfo.cols.info = text
	tree:append_text(", " .. text)
	return tvb:len()
end

DissectorTable.get("ethertype"):add(0x88b5, hikyaku)

-- ---- messages of rtc nodes (src/wire/msg.h) ---------------------------------------------------

local MSG_VERSION, MSG_LEN = 1, 18
local MSG_REPLY, MSG_WANTS_REPLY, MSG_RESENT, MSG_TAG = 0x10, 0x20, 0x40, 0x80
local MSG_TRAILER = 24
local msg_types = { [240] = "alive", [241] = "leave", [242] = "greeting" }

local msg = Proto("hkmsg", "Hikyaku message")

local m = {
	version = ProtoField.uint8("hkmsg.version", "Version", base.DEC, nil, 0x0f),
	flags = ProtoField.uint8("hkmsg.flags", "Flags", base.HEX, nil, 0xf0),
	reply = ProtoField.bool("hkmsg.flags.reply", "Reply", 8, nil, MSG_REPLY),
	wants_reply = ProtoField.bool("hkmsg.flags.wants_reply", "Wants a reply", 8, nil,
		MSG_WANTS_REPLY),
	resent = ProtoField.bool("hkmsg.flags.resent", "Sent before", 8, nil, MSG_RESENT),
	tagged = ProtoField.bool("hkmsg.flags.tag", "Has a tag", 8, nil, MSG_TAG),
	type = ProtoField.uint8("hkmsg.type", "Type", base.DEC, msg_types),
	len = ProtoField.uint16("hkmsg.len", "Length of the payload"),
	src = ProtoField.uint16("hkmsg.src", "Source node"),
	dst = ProtoField.uint16("hkmsg.dst", "Destination node"),
	key = ProtoField.uint32("hkmsg.key", "Job key", base.HEX),
	number = ProtoField.uint32("hkmsg.number", "Number"),
	epoch = ProtoField.uint16("hkmsg.epoch", "Source epoch", base.HEX),
	payload = ProtoField.bytes("hkmsg.payload", "Payload"),
	counter = ProtoField.uint64("hkmsg.counter", "Counter"),
	tag = ProtoField.bytes("hkmsg.tag", "Tag"),
	padding = ProtoField.bytes("hkmsg.padding", "Padding"),
}
msg.fields = m

local me = {
	short = ProtoExpert.new("hkmsg.malformed.short",
		"Shorter than its header or its length field require", expert.group.MALFORMED,
		expert.severity.ERROR),
	version = ProtoExpert.new("hkmsg.malformed.version", "Unknown version",
		expert.group.UNDECODED, expert.severity.WARN),
	field = ProtoExpert.new("hkmsg.malformed.field", "Field outside its range",
		expert.group.MALFORMED, expert.severity.ERROR),
	resent = ProtoExpert.new("hkmsg.resent", "Not the first transmission of this message",
		expert.group.SEQUENCE, expert.severity.NOTE),
}
msg.experts = { me.short, me.version, me.field, me.resent }

local function describe_msg(type, flags, src, dst, number, len)
	local text = string.format("%s %u → %u  number %u  %u bytes",
		msg_types[type] or "type " .. type, src, dst, number, len)
	if band(flags, MSG_REPLY) ~= 0 then
		text = "reply to " .. text
	end
	if band(flags, MSG_RESENT) ~= 0 then
		text = text .. "  [resent]"
	end
	return text
end

function msg.dissector(tvb, pinfo, root)
	pinfo.cols.protocol = "Hikyaku-msg"
	local tree = root:add(msg, tvb())

	if tvb:len() < MSG_LEN then
		tree:add_proto_expert_info(me.short)
		pinfo.cols.info = "Hikyaku message, too short for a header"
		return tvb:len()
	end
	local first, type, len = tvb(0, 1):uint(), tvb(1, 1):uint(), tvb(2, 2):le_uint()
	local src, dst, number = tvb(4, 2):le_uint(), tvb(6, 2):le_uint(), tvb(12, 4):le_uint()
	tree:add(m.version, tvb(0, 1))
	local flags = tree:add(m.flags, tvb(0, 1))
	if band(first, 0x0f) ~= MSG_VERSION then
		flags:add_proto_expert_info(me.version)
		pinfo.cols.info = "Hikyaku message, unknown version"
		return tvb:len()
	end
	flags:add(m.reply, tvb(0, 1))
	flags:add(m.wants_reply, tvb(0, 1))
	local resent = flags:add(m.resent, tvb(0, 1))
	flags:add(m.tagged, tvb(0, 1))
	if band(first, MSG_RESENT) ~= 0 then
		resent:add_proto_expert_info(me.resent)
	end
	tree:add(m.type, tvb(1, 1))
	local len_item = tree:add_le(m.len, tvb(2, 2))
	tree:add_le(m.src, tvb(4, 2))
	local dst_item = tree:add_le(m.dst, tvb(6, 2))
	tree:add_le(m.key, tvb(8, 4))
	tree:add_le(m.number, tvb(12, 4))
	local epoch = tree:add_le(m.epoch, tvb(16, 2))
	local trailer = band(first, MSG_TAG) ~= 0 and MSG_TRAILER or 0
	if MSG_LEN + len + trailer > tvb:reported_len() then
		malformed(len_item, me.short, "len exceeds the message")
		pinfo.cols.info = "Hikyaku message, shorter than its length field"
		return tvb:len()
	end
	if src == dst then
		malformed(dst_item, me.field, "src equals dst")
	end
	if tvb(16, 2):le_uint() == 0 then
		malformed(epoch, me.field, "epoch is 0")
	end
	if len > 0 and MSG_LEN + len <= tvb:len() then
		tree:add(m.payload, tvb(MSG_LEN, len))
	end
	if trailer > 0 and MSG_LEN + len + trailer <= tvb:len() then
		tree:add_le(m.counter, tvb(MSG_LEN + len, 8))
		tree:add(m.tag, tvb(MSG_LEN + len + 8, 16))
	end
	if tvb:len() > MSG_LEN + len + trailer then
		tree:add(m.padding, tvb(MSG_LEN + len + trailer))
	end
	local text = describe_msg(type, first, src, dst, number, len)
	pinfo.cols.info = text
	tree:append_text(", " .. text)
	return tvb:len()
end

DissectorTable.get("ethertype"):add(0x88b6, msg)
DissectorTable.get("udp.port"):add_for_decode_as(msg)
