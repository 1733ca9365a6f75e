package host

import (
	"context"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/kea"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/host/daemon/postgresql"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/daemon/unbound"
	"edge.internal/gateway/internal/kit/host/daemon/wireguard"
	"edge.internal/gateway/internal/kit/value"
	"github.com/google/uuid"
)

type (
	SquidReport        = squid.Report
	LeaseCommand       = kea.Command
	DetectionVerb      = crowdsec.Verb
	RouterState        = keepalived.State
	Proxy              = haproxy.Proxy
	ProxyQuestion      = haproxy.Question
	ProxyProcess       = haproxy.Process
	ReloadRefused      = haproxy.ReloadRefused
	Resolver           = unbound.Resolver
	ResolverQuestion   = unbound.Question
	ForwardProxy       = squid.ForwardProxy
	SquidJudge         = squid.Judge
	LeaseServerPaths   = kea.Paths
	Leases             = kea.Leases
	LeaseServerRefused = kea.Refused
	Radius             = freeradius.Radius
	RadiusLogin        = freeradius.Login
	RadiusAnswer       = freeradius.Answer
	DetectionName      = crowdsec.Name
	Detection          = crowdsec.Detection
	DetectionQuestion  = crowdsec.Question
	DetectionRefused   = crowdsec.Refused
	VirtualRouter      = keepalived.VirtualRouter
	Database           = postgresql.Database
)

const (
	Chrony                  = chrony.Unit
	ChronyMain              = chrony.Main
	ChronyDropIn            = chrony.DropIn
	ChronyCheck             = chrony.Check
	ChronyTracking          = chrony.Tracking
	ChronySources           = chrony.Sources
	ChronyBurst             = chrony.Burst
	ChronyMakestep          = chrony.Makestep
	TimeLogSource           = chrony.LogSource
	HAProxy                 = haproxy.Unit
	ProxyConfig             = haproxy.Config
	ProxyHosts              = haproxy.Hosts
	ProxyWildcards          = haproxy.Wildcards
	ProxyRoutes             = haproxy.Routes
	ProxyHeaders            = haproxy.Headers
	ProxySwitches           = haproxy.Switches
	ProxyMaintenancePage    = haproxy.MaintenancePage
	ProxyBlockedPage        = haproxy.BlockedPage
	ProxyInspection         = haproxy.Inspection
	ProxyCertificateList    = haproxy.CertificateList
	ProxyManagementList     = haproxy.ManagementList
	ProxyDefaultCertificate = haproxy.DefaultCertificate
	HAProxyCheck            = haproxy.Check
	HAProxyVersion          = haproxy.Version
	ProxyLogSource          = haproxy.LogSource
	RequestsLogSource       = haproxy.RequestsLogSource
	ProxyMasterSocket       = haproxy.MasterSocket
	ProxyAdminSocket        = haproxy.AdminSocket
	ProxyPIDFile            = haproxy.PIDFile
	ProxyQuestionLimit      = haproxy.QuestionLimit
	Unbound                 = unbound.Unit
	UnboundMain             = unbound.Main
	UnboundDropIn           = unbound.DropIn
	UnboundCheck            = unbound.Check
	ResolverLogSource       = unbound.LogSource
	ResolverSocket          = unbound.Socket
	ResolverQuestionLimit   = unbound.QuestionLimit
	Squid                   = squid.Unit
	SquidMain               = squid.Main
	SquidDropIn             = squid.DropIn
	SquidAccessList         = squid.AccessList
	SquidCheck              = squid.Check
	SquidLogSource          = squid.LogSource
	SquidAccess             = squid.AccessLog
	JudgeProgram            = squid.JudgeProgram
	JudgeSocket             = squid.JudgeSocket
	SquidManagerPort        = squid.ManagerPort
	SquidCounters           = squid.Counters
	SquidInfo               = squid.Info
	SquidDescriptors        = squid.Descriptors
	Kea                     = kea.Unit
	KeaConfig               = kea.Config
	KeaCheck                = kea.Check
	LeasesLogSource         = kea.LogSource
	LeaseServerReload       = kea.Reload
	LeaseServerMark         = kea.Mark
	LeaseServerStatus       = kea.Status
	LeaseServerLeases       = kea.LeasePage
	FreeRADIUS              = freeradius.Unit
	RadiusConfig            = freeradius.Config
	RadiusClients           = freeradius.Clients
	RadiusUsers             = freeradius.Users
	FreeRADIUSCheck         = freeradius.Check
	RadiusLogSource         = freeradius.LogSource
	RadiusLogins            = freeradius.Logins
	RadiusServer            = freeradius.ServerLog
	CrowdSec                = crowdsec.Unit
	Bouncer                 = crowdsec.Bouncer
	DetectionConfig         = crowdsec.Config
	DetectionSources        = crowdsec.Sources
	DetectionProfiles       = crowdsec.Profiles
	DetectionParsers        = crowdsec.Parsers
	DetectionAllowList      = crowdsec.AllowList
	DetectionScenarios      = crowdsec.Scenarios
	DetectionBouncer        = crowdsec.BouncerConfig
	DetectionMachines       = crowdsec.Machines
	DetectionMachineAdd     = crowdsec.MachineAdd
	DetectionBouncers       = crowdsec.Bouncers
	DetectionBouncerAdd     = crowdsec.BouncerAdd
	DetectionBouncerRemove  = crowdsec.BouncerRemove
	DetectionCollections    = crowdsec.Collections
	DetectionUnban          = crowdsec.Unban
	DetectionLogSource      = crowdsec.LogSource
	DetectionPort           = crowdsec.Port
	SSHService              = crowdsec.SSHService
	AuthLog                 = crowdsec.AuthLog
	ProxyLog                = crowdsec.ProxyLog
	WAFLog                  = crowdsec.WAFLog
	DropLog                 = crowdsec.DropLog
	BouncerBans             = crowdsec.BansChain
	BouncerSpared           = crowdsec.SparedSet
	BouncerTable4           = crowdsec.Table4
	BouncerChain4           = crowdsec.Chain4
	BouncerSet4             = crowdsec.Set4
	BouncerTable6           = crowdsec.Table6
	BouncerChain6           = crowdsec.Chain6
	BouncerSet6             = crowdsec.Set6
	DetectionLogin          = crowdsec.Login
	DetectionDecisions      = crowdsec.Decisions
	DetectionDecisionRemove = crowdsec.DecisionRemove
	DetectionAlerts         = crowdsec.Alerts
	DetectionAlert          = crowdsec.Alert
	DetectionAlertAdd       = crowdsec.AlertAdd
	Keepalived              = keepalived.Unit
	VRRPConfig              = keepalived.Config
	VRRPDrain               = keepalived.Drain
	VRRPCheck               = keepalived.Check
	VRRPLogSource           = keepalived.LogSource
	VRRPStates              = keepalived.States
	VRRPProbeUser           = keepalived.ProbeUser
	VRRPProbeGroup          = keepalived.ProbeGroup
	VRRPProbe               = keepalived.Probe
	RouterMaster            = keepalived.Master
	RouterBackup            = keepalived.Backup
	RouterFault             = keepalived.Fault
	RouterStop              = keepalived.Stop
	WireguardGo             = wireguard.Go
	TunnelLogSource         = wireguard.LogSource
	PacketFilterTable       = nftables.Table
	NftCheck                = nftables.Check
	NftLoad                 = nftables.Load
	PacketFilter            = nftables.PacketFilter
	FilterTable             = nftables.Name
	DatabaseSettings        = postgresql.Settings
	DatabaseAccess          = postgresql.Access
	DatabaseMembers         = postgresql.Members
	DatabaseAuthority       = postgresql.Authority
	DatabaseIdentity        = postgresql.Identity
	DatabaseFolder          = postgresql.Folder
)

var RadiusSelf = freeradius.Self

func LeaseServer() kea.Paths              { return kea.Where() }
func ProxyCertificate(id uuid.UUID) Place { return haproxy.Certificate(id) }
func TunnelState(name value.IfName) Place { return wireguard.State(name) }
func IsBouncer(name string) error         { return crowdsec.IsBouncer(name) }
func AskLeaseServer(ctx context.Context, l Leases, c LeaseCommand, arguments, into any) error {
	return kea.Ask(ctx, l, c, arguments, into)
}
