/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/fabric.cc: see fabric.h.
 */
#include "sim-ns3/fabric.h"

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint8_t ENGINE_PROTOCOL = 253; /* for experiments, RFC 3692 */
constexpr uint16_t TCP_PORT = 5000;
constexpr uint32_t PPP_HLEN = 2;
constexpr uint32_t ETH_OVERHEAD = FABRIC_ETH_HLEN + 24; /* check sequence, preamble, gap */
constexpr uint32_t ETH_MIN_FRAME = 60;
constexpr uint32_t TCP_OVERHEAD = 52; /* IPv4, TCP, timestamps */
constexpr uint32_t TCP_BUFFER = 4 << 20;

struct connection {
	uint32_t from, to;
	Ptr<Socket> socket;      /* the sender's */
	uint64_t written, acked; /* bytes */
	SequenceNumber32 next;   /* after the highest that was sent */
	bool sent;               /* `next` is valid */
};

class Transport;

struct fabric {
	fabric_config c;
	NodeContainer hosts, hub;
	std::vector<Ptr<Transport>> transport;
	std::vector<connection> tcp;
	std::deque<fabric_event> events;
	uint64_t until; /* of the Stop event in ns-3's queue */
};

fabric *self;

void happened(int kind, uint32_t a, uint32_t b)
{
	self->events.push_back({kind, a, b});
	Simulator::Stop();
}

/* Host @i has 10/8 + 4i + 1, and the network switch's end of its link the address after it. */
Ipv4Address address_of(uint32_t host)
{
	return Ipv4Address(0x0a000000u + 4 * host + 1);
}

uint32_t host_of(Ipv4Address address)
{
	return (address.Get() - 0x0a000000u) / 4;
}

/* ---- routes: an array, because a list of a thousand routes takes most of the time --------------
 */

class StarRouting : public Ipv4RoutingProtocol
{
      public:
	/* @host: of this node; UINT32_MAX: it is the network switch. */
	explicit StarRouting(uint32_t host) : m_host(host)
	{
	}

	/* The next interface of the node leads to the other end of the link of @host. */
	void Add(uint32_t host, Ptr<NetDevice> device)
	{
		bool hub = m_host == UINT32_MAX;
		auto route = Create<Ipv4Route>();
		Ipv4Address near = address_of(host), far(near.Get() + 1);

		route->SetSource(hub ? far : near);
		route->SetGateway(hub ? near : far);
		route->SetDestination(hub ? near : far);
		route->SetOutputDevice(device);
		m_routes.push_back(route);
	}

	Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &, Ptr<NetDevice>,
				   Socket::SocketErrno &error) override
	{
		error = Socket::ERROR_NOTERROR;
		return m_routes[0];
	}

	bool RouteInput(Ptr<const Packet> p, const Ipv4Header &header, Ptr<const NetDevice>,
			UnicastForwardCallback forward, MulticastForwardCallback,
			LocalDeliverCallback deliver, ErrorCallback) override
	{
		if (m_host == UINT32_MAX)
			forward(m_routes[host_of(header.GetDestination())], p, header);
		else
			deliver(p, header, 1);
		return true;
	}

	void NotifyInterfaceUp(uint32_t) override
	{
	}
	void NotifyInterfaceDown(uint32_t) override
	{
	}
	void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
	{
	}
	void SetIpv4(Ptr<Ipv4>) override
	{
	}
	void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
	{
	}

      private:
	uint32_t m_host;
	std::vector<Ptr<Ipv4Route>> m_routes;
};

/* ---- the engine's frames: a transport protocol beside TCP and UDP ------------------------------
 */

/*
 * The IPv4 header stands for the first 20 bytes of ours, so that a packet is as long as the frame's
 * Ethernet payload. Payloads are zeros behind the number of the frame: its headers stay in the pool
 * of tools/sim.
 */
class Transport : public IpL4Protocol
{
      public:
	Transport(uint32_t host, Ptr<Ipv4> ipv4) : m_host(host), m_ipv4(ipv4)
	{
		ipv4->Insert(Ptr<IpL4Protocol>(this));
	}

	void Send(uint32_t to, uint32_t frame, uint32_t bytes)
	{
		uint32_t head = FABRIC_ETH_HLEN + FABRIC_IP_HLEN;
		uint32_t fill = std::max(bytes, ETH_MIN_FRAME) - head - sizeof(frame);
		auto p = Create<Packet>(reinterpret_cast<uint8_t *>(&frame), sizeof(frame));

		p->AddPaddingAtEnd(fill);
		m_ipv4->Send(p, address_of(m_host), address_of(to), ENGINE_PROTOCOL, nullptr);
	}

	int GetProtocolNumber() const override
	{
		return ENGINE_PROTOCOL;
	}
	RxStatus Receive(Ptr<Packet> p, const Ipv4Header &, Ptr<Ipv4Interface>) override
	{
		happened(self->c.frame_kind, Frame(p), m_host);
		return RX_OK;
	}
	RxStatus Receive(Ptr<Packet>, const Ipv6Header &, Ptr<Ipv6Interface>) override
	{
		return RX_ENDPOINT_UNREACH;
	}
	void SetDownTarget(DownTargetCallback) override
	{
	}
	void SetDownTarget6(DownTargetCallback6) override
	{
	}
	DownTargetCallback GetDownTarget() const override
	{
		return {};
	}
	DownTargetCallback6 GetDownTarget6() const override
	{
		return {};
	}

	static uint32_t Frame(Ptr<const Packet> p)
	{
		uint32_t frame;

		p->CopyData(reinterpret_cast<uint8_t *>(&frame), sizeof(frame));
		return frame;
	}

      private:
	uint32_t m_host;
	Ptr<Ipv4> m_ipv4;
};

/* ---- what ports say ----------------------------------------------------------------------------
 */

void on_enqueue(uint32_t host, Ptr<const QueueDiscItem> item)
{
	self->c.queued(host, static_cast<int32_t>(item->GetSize() + FABRIC_ETH_HLEN));
}

void on_drop(uint32_t host, Ptr<const QueueDiscItem> item)
{
	bool engine = self->c.transport == FABRIC_ENGINE;

	self->c.dropped(host, engine ? Transport::Frame(item->GetPacket()) : 0);
}

void on_mark(uint32_t host, Ptr<const QueueDiscItem>, const char *)
{
	self->c.marked(host);
}

void on_port_sent(uint32_t host, Ptr<const Packet> p)
{
	uint32_t bytes = p->GetSize() - PPP_HLEN;

	self->c.queued(host, -static_cast<int32_t>(bytes + FABRIC_ETH_HLEN));
	self->c.sent(host, bytes + ETH_OVERHEAD);
}

void on_nic_sent(uint32_t host, Ptr<const Packet>)
{
	if (self->c.transport == FABRIC_ENGINE)
		happened(self->c.sent_kind, host, 0);
}

/* ---- TCP ---------------------------------------------------------------------------------------
 */

uint32_t connection_of(uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < self->tcp.size(); i++)
		if (self->tcp[i].from == from && self->tcp[i].to == to)
			return i;
	NS_FATAL_ERROR("a connection that nobody opened");
}

void on_data(uint32_t c, Ptr<Socket> socket)
{
	uint32_t bytes = 0;

	while (Ptr<Packet> p = socket->Recv())
		bytes += p->GetSize();
	if (bytes)
		self->c.tcp->arrived(c, bytes);
}

void on_accept(Ptr<Socket> socket, const Address &from)
{
	uint32_t to = socket->GetNode()->GetId();
	uint32_t c = connection_of(host_of(InetSocketAddress::ConvertFrom(from).GetIpv4()), to);

	socket->SetRecvCallback(MakeBoundCallback(&on_data, c));
}

/* The send buffer has more space, so more is acknowledged. */
void on_space(uint32_t c, Ptr<Socket>, uint32_t space)
{
	connection &x = self->tcp[c];
	uint64_t acked = x.written - (TCP_BUFFER - space);

	if (acked > x.acked) {
		uint32_t more = static_cast<uint32_t>(acked - x.acked);

		x.acked = acked;
		self->c.tcp->acked(c, more);
	}
}

void on_segment(uint32_t c, Ptr<const Packet> p, const TcpHeader &header, Ptr<const TcpSocketBase>)
{
	connection &x = self->tcp[c];
	SequenceNumber32 first = header.GetSequenceNumber(), end = first + p->GetSize();

	if (!p->GetSize())
		return;
	self->c.tcp->segment(c, x.sent && first < x.next);
	if (!x.sent || end > x.next)
		x.next = end;
	x.sent = true;
}

void on_state(uint32_t c, TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
	if (now == TcpSocketState::CA_LOSS)
		self->c.tcp->timeout(c);
}

/*
 * ns-3's DCTCP reduces its window without a limit. Below one segment it sends nothing more, gets no
 * acknowledgement, and stands still for ever. This one keeps two segments, as Linux does.
 */
class Dctcp : public TcpDctcp
{
      public:
	static TypeId GetTypeId()
	{
		static TypeId id =
			TypeId("hikyaku::Dctcp").SetParent<TcpDctcp>().AddConstructor<Dctcp>();

		return id;
	}

	uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t in_flight) override
	{
		return std::max(TcpDctcp::GetSsThresh(tcb, in_flight), 2 * tcb->m_segmentSize);
	}

	Ptr<TcpCongestionOps> Fork() override
	{
		return CopyObject<Dctcp>(this);
	}
};

void tcp_defaults(const fabric_config &c)
{
	bool dctcp = c.transport == FABRIC_DCTCP;
	Time min_rto = MilliSeconds(c.min_rto_ms);

	Config::SetDefault("ns3::TcpL4Protocol::SocketType",
			   TypeIdValue(dctcp ? Dctcp::GetTypeId() : TcpCubic::GetTypeId()));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(c.mtu - TCP_OVERHEAD));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(TCP_BUFFER));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(TCP_BUFFER));
	/* The last segment of a message is odd as often as even. With 40 or 200 ms, this timer
	 * would decide when a message is complete. */
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MicroSeconds(100)));
	/* as Linux; with the 6 of ns-3, connections end in large incasts */
	Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(15));
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(min_rto));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity",
			   TimeValue(std::min(min_rto, MilliSeconds(1))));
}

void listen(Ptr<Node> node)
{
	Ptr<Socket> socket = Socket::CreateSocket(node, TcpSocketFactory::GetTypeId());

	socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), TCP_PORT));
	socket->Listen();
	socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
				  MakeCallback(&on_accept));
}

/* ---- the star ----------------------------------------------------------------------------------
 */

/* Gives @node's end of a link its address and its route. */
void attach(Ptr<Node> node, Ptr<NetDevice> device, Ipv4Address address)
{
	Ptr<Ipv4> ipv4 = node->GetObject<Ipv4>();
	uint32_t i = ipv4->AddInterface(device);

	ipv4->AddAddress(i, Ipv4InterfaceAddress(address, Ipv4Mask("/30")));
	ipv4->SetMetric(i, 1);
	ipv4->SetUp(i);
}

void queue_of(uint32_t host, Ptr<NetDevice> device)
{
	const fabric_config &c = self->c;
	QueueSizeValue size(QueueSize(QueueSizeUnit::BYTES, c.buffer));
	TrafficControlHelper helper;

	if (c.transport == FABRIC_DCTCP)
		/* as in ns-3's dctcp-example, but with one threshold, as in the paper */
		helper.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", size, "UseEcn",
					BooleanValue(true), "UseHardDrop", BooleanValue(false),
					"Gentle", BooleanValue(false), "QW", DoubleValue(1),
					"MeanPktSize", UintegerValue(c.mtu), "MinTh",
					DoubleValue(c.mark), "MaxTh", DoubleValue(c.mark));
	else
		helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", size);
	Ptr<QueueDisc> queue = helper.Install(device).Get(0);

	queue->TraceConnectWithoutContext("Enqueue", MakeBoundCallback(&on_enqueue, host));
	queue->TraceConnectWithoutContext("Drop", MakeBoundCallback(&on_drop, host));
	queue->TraceConnectWithoutContext("Mark", MakeBoundCallback(&on_mark, host));
	device->TraceConnectWithoutContext("PhyTxEnd", MakeBoundCallback(&on_port_sent, host));
}

void link(PointToPointHelper &helper, uint32_t host, Ptr<StarRouting> hub_routes)
{
	Ptr<Node> node = self->hosts.Get(host), hub = self->hub.Get(0);
	NetDeviceContainer ends = helper.Install(node, hub);
	Ptr<NetDevice> nic = ends.Get(0), port = ends.Get(1);
	auto routes = Create<StarRouting>(host);
	Ipv4Address near = address_of(host);

	/* the host limits its frames, so its queue takes all of them */
	nic->SetAttribute("TxQueue", PointerValue(CreateObjectWithAttributes<DropTailQueue<Packet>>(
					     "MaxSize", QueueSizeValue(QueueSize("1000000p")))));
	nic->TraceConnectWithoutContext("PhyTxEnd", MakeBoundCallback(&on_nic_sent, host));
	queue_of(host, port);
	attach(node, nic, near);
	attach(hub, port, Ipv4Address(near.Get() + 1));
	node->GetObject<Ipv4>()->SetRoutingProtocol(routes);
	routes->Add(host, nic);
	hub_routes->Add(host, port);
}

} // namespace

void fabric_open(const fabric_config *c)
{
	Time::SetResolution(Time::PS);
	self = new fabric{};
	self->c = *c;
	if (c->transport != FABRIC_ENGINE)
		tcp_defaults(*c);
	self->hosts.Create(c->hosts);
	self->hub.Create(1);

	InternetStackHelper stack;
	PointToPointHelper helper;

	stack.SetIpv6StackInstall(false);
	stack.InstallAll();
	helper.SetDeviceAttribute("DataRate", DataRateValue(8000000000000 / c->ps_per_byte));
	helper.SetDeviceAttribute("Mtu", UintegerValue(c->mtu));
	helper.SetDeviceAttribute("InterframeGap", TimeValue(PicoSeconds((ETH_OVERHEAD - PPP_HLEN) *
									 c->ps_per_byte)));
	helper.SetChannelAttribute("Delay", TimeValue(PicoSeconds(c->link_delay)));
	helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize("1p")));

	auto hub_routes = Create<StarRouting>(UINT32_MAX);

	for (uint32_t i = 0; i < c->hosts; i++)
		link(helper, i, hub_routes);
	self->hub.Get(0)->GetObject<Ipv4>()->SetRoutingProtocol(hub_routes);
	for (uint32_t i = 0; i < c->hosts; i++) {
		Ptr<Node> node = self->hosts.Get(i);

		if (c->transport == FABRIC_ENGINE)
			self->transport.push_back(Create<Transport>(i, node->GetObject<Ipv4>()));
		else
			listen(node);
	}
}

void fabric_close()
{
	Simulator::Destroy();
	delete self;
	self = nullptr;
}

uint64_t fabric_now()
{
	return static_cast<uint64_t>(Simulator::Now().GetPicoSeconds());
}

void fabric_timer(uint64_t at, int kind, uint32_t a, uint32_t b)
{
	Simulator::Schedule(PicoSeconds(at - fabric_now()), &happened, kind, a, b);
}

bool fabric_next(uint64_t until, fabric_event *ev)
{
	if (self->until != until) {
		self->until = until;
		Simulator::Stop(PicoSeconds(until - fabric_now()));
	}
	while (self->events.empty()) {
		if (fabric_now() >= until)
			return false;
		Simulator::Run();
	}
	*ev = self->events.front();
	self->events.pop_front();
	return true;
}

void fabric_send(uint32_t from, uint32_t to, uint32_t frame, uint32_t bytes)
{
	self->transport[from]->Send(to, frame, bytes);
}

uint32_t fabric_connect(uint32_t from, uint32_t to)
{
	auto c = static_cast<uint32_t>(self->tcp.size());
	Ptr<Socket> socket = Socket::CreateSocket(self->hosts.Get(from),
						  TcpSocketFactory::GetTypeId());

	self->tcp.push_back({from, to, socket, 0, 0, {}, false});
	socket->SetSendCallback(MakeBoundCallback(&on_space, c));
	socket->TraceConnectWithoutContext("Tx", MakeBoundCallback(&on_segment, c));
	socket->TraceConnectWithoutContext("CongState", MakeBoundCallback(&on_state, c));
	socket->Bind();
	socket->Connect(InetSocketAddress(address_of(to), TCP_PORT));
	return c;
}

uint32_t fabric_write(uint32_t c, uint32_t bytes)
{
	connection &x = self->tcp[c];
	uint32_t fits = std::min(bytes, x.socket->GetTxAvailable());

	/* before Send(), which may call on_space() */
	x.written += fits;
	if (fits && x.socket->Send(Create<Packet>(fits)) != static_cast<int>(fits))
		NS_FATAL_ERROR("TCP refused what its buffer has space for");
	return fits;
}
