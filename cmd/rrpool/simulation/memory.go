package simulation

// What BIRD needs on a reflector, by measurement (docs/capacity.md): so much by itself, so
// much for each session, and so much for each route that it passes on, as long as
// everybody connects at the same moment.
const (
	bytesAlone      = 8_000_000
	bytesPerSession = 6_000
	bytesPerRoute   = 7.5
)

// estimate is the memory of BIRD on the busiest reflector. It passes on what a client
// gets over each of its sessions, to each of its own.
func estimate(f *figures) memory {
	if f.SessionsPerClient.Least == 0 || f.Reflectors == 0 {
		return memory{}
	}
	perSession := float64(f.ClientRIB.Paths) / float64(f.SessionsPerClient.Least)
	sessions := float64(f.SessionsPerReflector.Most)
	bytes := bytesAlone + sessions*(bytesPerSession+perSession*bytesPerRoute)
	return memory{Bytes: uint64(bytes), AtLeast: f.ClientRIB.AtLeast}
}
