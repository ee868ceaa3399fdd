package check

import (
	"context"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/rrpool/rrpool/config/rbac"
)

// subject is a service account.
type subject struct{ namespace, name string }

func (s subject) spec() authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + s.namespace + ":" + s.name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + s.namespace, "system:authenticated"},
	}
}

// lookAtRights asks who may do what.
func (g *gatherer) lookAtRights(ctx context.Context) error {
	needs, err := needed(g.namespace)
	if err != nil {
		return err
	}
	r := &g.rights
	if g.pre {
		installs, err := installing(g.namespace, g.iks())
		if err != nil {
			return err
		}
		r.install = g.lacks(ctx, installs, nil)
		free := g.lacks(ctx, escalating(), nil)
		r.escalates = free.hidden == "" && len(free.lacking) == 0
		r.user = g.lacks(ctx, needs, nil)
		return nil
	}
	r.manager = g.lacks(ctx, needs, &subject{g.namespace, rbac.ServiceAccount})
	if r.manager.hidden != "" {
		r.user = g.lacks(ctx, needs, nil)
	}
	return nil
}

// atOnce is how many questions are asked at a time.
const atOnce = 8

// lacks asks which of the rights somebody does not have: a service account, or, where who
// is nil, the user.
func (g *gatherer) lacks(ctx context.Context, rights []right, who *subject) answer {
	out := answer{asked: len(rights)}
	may, hidden := make([]bool, len(rights)), make([]string, len(rights))
	// Whoever may not ask the first question may not ask any.
	if may[0], hidden[0] = g.may(ctx, rights[0], who); hidden[0] != "" {
		out.hidden = hidden[0]
		return out
	}
	var asking sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := 1; i < len(rights); i++ {
		slots <- struct{}{}
		asking.Go(func() {
			may[i], hidden[i] = g.may(ctx, rights[i], who)
			<-slots
		})
	}
	asking.Wait()
	for i, r := range rights {
		switch {
		case hidden[i] != "":
			out.hidden = hidden[i]
		case !may[i]:
			out.lacking = append(out.lacking, r)
		}
	}
	return out
}

// may asks whether somebody may do one thing.
func (g *gatherer) may(ctx context.Context, r right, who *subject) (allowed bool, hidden string) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	if who == nil {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r.attributes()}}
		if err := g.Create(ctx, review); err != nil {
			return false, g.Explain(err, "create", "selfsubjectaccessreviews.authorization.k8s.io").Error()
		}
		return review.Status.Allowed, ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: who.spec()}
	review.Spec.ResourceAttributes = r.attributes()
	if err := g.Create(ctx, review); err != nil {
		return false, g.Explain(err, "create", "subjectaccessreviews.authorization.k8s.io").Error()
	}
	return review.Status.Allowed, ""
}
