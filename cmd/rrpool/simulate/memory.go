package simulate

// What BIRD needs on a reflector, as measured with 500 to 5,000 clients (docs/capacity.md): so
// much by itself, so much for each session, and so much for each route that it sends,
// while everybody connects at the same moment. With fewer sessions it is less.
const (
	bytesAlone      = 7_000_000
	bytesPerSession = 89_000
	bytesPerRoute   = 8.8
)

// estimate is the memory of BIRD on the busiest reflector. Over each of its sessions
// it sends what a client gets over one.
func estimate(f *figures) memory {
	if f.SessionsPerClient.Least == 0 || f.Reflectors == 0 {
		return memory{}
	}
	perSession := float64(f.ClientRIB.Paths) / float64(f.SessionsPerClient.Least)
	sessions := float64(f.SessionsPerReflector.Most)
	bytes := bytesAlone + sessions*(bytesPerSession+perSession*bytesPerRoute)
	return memory{Bytes: uint64(bytes), AtLeast: f.ClientRIB.AtLeast}
}
