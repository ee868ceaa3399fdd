package cloud_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rrpool/rrpool/cloud"
)

func TestErrors(t *testing.T) {
	cause := errors.New("no route to host")
	err := fmt.Errorf("reconciling: %w", &cloud.Error{Kind: cloud.RateLimited, Op: "listing pools", RetryAfter: time.Second, Err: cause})
	require.EqualError(t, err, "reconciling: listing pools: RateLimited: no route to host")
	require.True(t, cloud.Is(err, cloud.RateLimited))
	require.False(t, cloud.Is(err, cloud.NotFound))
	require.False(t, cloud.Is(nil, ""))
	require.Equal(t, time.Second, cloud.RetryAfter(err))
	require.ErrorIs(t, err, cause)
	require.Empty(t, cloud.KindOf(cause))
	require.Zero(t, cloud.RetryAfter(cause))
	require.EqualError(t, &cloud.Error{Kind: cloud.NotFound, Op: "reading", Message: "gone"}, "reading: NotFound: gone")
}
