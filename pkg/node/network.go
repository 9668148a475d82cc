package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/cleave-dra/cleave/pkg/hardware"
)

// conditionNetworkReady says of a NIC whether the pods of its claim can use it.
const conditionNetworkReady = "NetworkReady"

// interfaceStays is why a NIC on Ethernet does not work in a pod with a network of its
// own: RDMA goes by the addresses of the network interface there.
const interfaceStays = "RDMA over Ethernet needs the network interface, which is not moved into pods: it works in pods with hostNetwork only"

// networkReady is the condition of a NIC with this link layer for the pods that have
// it. InfiniBand works in any network namespace.
func networkReady(layer string, pods []*corev1.Pod) metav1.Condition {
	status, reason, message := metav1.ConditionTrue, "HostNetwork", "the pod is in the host's network"
	switch {
	case layer == hardware.LinkLayerInfiniBand:
		reason, message = "InfiniBand", "works in any pod"
	case len(pods) == 0:
		status, reason, message = metav1.ConditionUnknown, "NoPod", interfaceStays
	case slices.ContainsFunc(pods, cutOff):
		status, reason, message = metav1.ConditionFalse, "HostNetworkOnly", interfaceStays
	}
	return metav1.Condition{Type: conditionNetworkReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// cutOff tells that a pod has no use of a NIC on Ethernet.
func cutOff(pod *corev1.Pod) bool { return !pod.Spec.HostNetwork }

// podsOf are the pods for which a claim is reserved, as far as they still exist.
func podsOf(ctx context.Context, kube kubernetes.Interface, claim *resourceapi.ResourceClaim) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup != "" || consumer.Resource != "pods" {
			continue
		}
		pod, err := kube.CoreV1().Pods(claim.Namespace).Get(ctx, consumer.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pod.UID != consumer.UID {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read pod %s/%s of the claim: %w", claim.Namespace, consumer.Name, err)
		}
		out = append(out, pod)
	}
	return out, nil
}
