// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/reject"
)

// The roles that access grants, by the ends of the names of their ClusterRoles.
const (
	roleInspect  = "inspect"
	roleOperator = "operator"
	roleReveal   = "reveal"

	// roleExceptions is what the people of the role operator have, not their account.
	roleExceptions = "exceptions"
)

// access describes an entry of the chart value access, with one Namespace.
type access struct {
	name, role    string
	namespace     string // of the policies
	weirNamespace string
	fullname      string // of the objects of the chart
	users, groups []string
	reveal        bool
}

func newAccessCommand(c *connect.Connection) *cobra.Command {
	a := &access{}
	cmd := &cobra.Command{
		Use:   "access --role ROLE",
		Short: "Print the manifests of an account with rights on keys",
		Long: `Print the manifests of an account with rights on keys.

They are what the chart value access renders: a ServiceAccount in --weir-namespace, and its
role in the Namespace of -n. --user and --group name who may create its tokens and reach
Weir; without them, only those who may do so anyway, such as owners of the cluster. With --role
operator they may also write exceptions there.

The command changes nothing and needs no cluster. All editors of --weir-namespace can
take the account's token, so delete the account when nobody needs it.`,
		Example: `  kubectl weir access --role operator -n shop | kubectl apply -f -
  kubectl weir access --role inspect -n shop --name support --group support > support.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.namespace, err = c.Namespace(); err != nil {
				return err
			}
			a.weirNamespace = c.WeirNamespace
			if err := a.validate(); err != nil {
				return err
			}
			return a.write(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&a.role, "role", "", "inspect keys that one can name, or operator: also list, block, unblock and reset them (required)")
	flags.StringVar(&a.name, "name", "on-call", "name of the ServiceAccount")
	flags.StringArrayVar(&a.users, "user", nil, "user who may create tokens of the account; may be repeated")
	flags.StringArrayVar(&a.groups, "group", nil, "group whose members may create tokens of the account; may be repeated")
	flags.BoolVar(&a.reveal, "reveal", false, "lists show the values of headers in keys, which may be credentials")
	flags.StringVar(&a.fullname, "fullname", "weir", "name of the objects of the chart: weir, or <release>-weir")
	return cmd
}

// validate rejects invalid flags.
func (a *access) validate() error {
	own := []string{a.fullname, a.fullname + "-manager", a.fullname + "-controller", a.fullname + "-decision"}
	return errors.Join(
		reject.If(a.role != roleInspect && a.role != roleOperator, "--role %q: must be inspect or operator", a.role),
		reject.If(a.reveal && a.role == roleInspect, "--reveal: needs --role operator, which lists keys"),
		reject.Name("--name", a.name, validation.IsDNS1123Label(a.name)),
		reject.Name("--fullname", a.fullname, validation.IsDNS1123Label(a.fullname)),
		reject.Name("--namespace", a.namespace, validation.IsDNS1123Label(a.namespace)),
		reject.Name("--weir-namespace", a.weirNamespace, validation.IsDNS1123Label(a.weirNamespace)),
		reject.If(slices.Contains(slices.Concat(a.users, a.groups), ""), "--user, --group: must not be empty"),
		reject.If(slices.Contains(own, a.name), "--name %q: is the ServiceAccount of the pods; choose another name", a.name))
}

// write writes the manifests in YAML.
func (a *access) write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# Role %s on keys of the policies in %s, by tokens of the ServiceAccount %s in %s.\n", a.role, a.namespace, a.name, a.weirNamespace)
	for i, object := range a.objects() {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// objects returns the manifests, as templates/access.yaml of the chart has them.
func (a *access) objects() []any {
	objects := []any{
		&corev1.ServiceAccount{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{
				Name: a.name, Namespace: a.weirNamespace, Labels: map[string]string{connect.AccountLabel: connect.AccountLabelValue},
			},
			AutomountServiceAccountToken: new(false),
		},
		a.binding(a.fullname+"-"+a.name+"-"+a.role, a.namespace, "ClusterRole", a.fullname+"-"+a.role, a.account()),
	}
	if a.reveal {
		objects = append(objects, a.binding(a.fullname+"-"+a.name+"-"+roleReveal, a.namespace, "ClusterRole", a.fullname+"-"+roleReveal, a.account()))
	}
	if subjects := a.subjects(); len(subjects) > 0 {
		name := a.fullname + "-access-" + a.name
		if a.role == roleOperator {
			objects = append(objects, a.binding(a.fullname+"-"+a.name+"-"+roleExceptions, a.namespace, "ClusterRole", a.fullname+"-"+roleExceptions, subjects...))
		}
		objects = append(objects, a.connectRole(name), a.binding(name, a.weirNamespace, "Role", name, subjects...))
	}
	return objects
}

func (a *access) account() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: a.name, Namespace: a.weirNamespace}
}

func (a *access) subjects() (subjects []rbacv1.Subject) {
	for _, user := range a.users {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	for _, group := range a.groups {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	}
	return subjects
}

func (a *access) binding(name, namespace, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   subjects,
	}
}

// connectRole returns what kubectl weir needs to reach Weir and to get tokens of the account. The
// Deployment that decides has one of two names.
func (a *access) connectRole(name string) *rbacv1.Role {
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: a.weirNamespace},
		Rules: []rbacv1.PolicyRule{
			rule("", "serviceaccounts/token", []string{a.name}, "create"),
			rule("", "serviceaccounts", nil, "list"),
			rule("", "services", []string{a.fullname}, "get"),
			rule("apps", "deployments", []string{a.fullname + "-manager", a.fullname + "-decision"}, "get"),
			rule("", "pods", nil, "get", "list"),
			rule("", "pods/portforward", nil, "get", "create"),
		},
	}
}
