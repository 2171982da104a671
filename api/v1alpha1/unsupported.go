// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"
)

// A later release may have stored a field, or a value of an enumeration, that this one does not know. To
// drop it would change what the object does, such as which requests it limits, so decoding notes it for
// internal/compile, which rejects the object. Only decoding does: there is no MarshalJSON, and without
// one controller-gen keeps the schema.

// UnmarshalJSON implements json.Unmarshaler. It decodes what this release knows and sets Unsupported.
func (s *RateLimitPolicySpec) UnmarshalJSON(data []byte) (err error) {
	type plain RateLimitPolicySpec
	s.Unsupported, err = unmarshal(data, (*plain)(s))
	return err
}

// UnmarshalJSON implements json.Unmarshaler. It decodes what this release knows and sets Unsupported.
func (s *RateLimitKeyGroupSpec) UnmarshalJSON(data []byte) (err error) {
	type plain RateLimitKeyGroupSpec
	s.Unsupported, err = unmarshal(data, (*plain)(s))
	return err
}

// UnmarshalJSON implements json.Unmarshaler. It decodes what this release knows and sets Unsupported.
func (s *RateLimitExceptionSpec) UnmarshalJSON(data []byte) (err error) {
	type plain RateLimitExceptionSpec
	s.Unsupported, err = unmarshal(data, (*plain)(s))
	return err
}

// unmarshal decodes the spec, and returns the fields and the values of enumerations in it that this
// release does not know.
func unmarshal(data []byte, spec any) (unsupported []string, err error) {
	unknown, err := json.UnmarshalStrict(data, spec, json.DisallowUnknownFields)
	if err != nil {
		return nil, err
	}
	for _, err := range unknown {
		if field, ok := err.(json.FieldError); ok { //nolint:errorlint // the strict errors of the decoder are not wrapped
			unsupported = append(unsupported, fmt.Sprintf("%.200s: unknown field", field.FieldPath()))
		}
	}
	return appendUnknownValues(unsupported, "", reflect.ValueOf(spec).Elem()), nil
}

// appendUnknownValues appends the values of enumerations below the path that this release does not know.
func appendUnknownValues(unsupported []string, path string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return appendUnknownValues(unsupported, path, v.Elem())
		}
	case reflect.Struct:
		return appendUnknownOfFields(unsupported, path, v)
	case reflect.Slice:
		return appendUnknownOfItems(unsupported, path, v)
	case reflect.String:
		if known := enumerations[v.Type()]; known != nil && v.String() != "" && !slices.Contains(known, v.String()) {
			return append(unsupported, fmt.Sprintf("%s: unknown value %.100q", path, v.String()))
		}
	default: // has no enumeration
	}
	return unsupported
}

func appendUnknownOfFields(unsupported []string, path string, v reflect.Value) []string {
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			unsupported = appendUnknownValues(unsupported, strings.TrimPrefix(path+"."+name, "."), v.Field(i))
		}
	}
	return unsupported
}

func appendUnknownOfItems(unsupported []string, path string, v reflect.Value) []string {
	if item := v.Type().Elem(); item.Kind() == reflect.String && enumerations[item] == nil {
		return unsupported // thousands of keys, for example
	}
	for i := range v.Len() {
		unsupported = appendUnknownValues(unsupported, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
	return unsupported
}

// enumerations are the values of the enumerations of all kinds.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[Mode]():              texts(ModeEnforce, ModeShadow, ModeDisabled),
	reflect.TypeFor[ValueMatchType]():    texts(ValueMatchExact, ValueMatchPresent),
	reflect.TypeFor[EntryMatchType]():    texts(EntryMatchExact, EntryMatchPresent, EntryMatchPrefix),
	reflect.TypeFor[OtherEntries]():      texts(OtherEntriesAllowed, OtherEntriesForbidden),
	reflect.TypeFor[KeyPartType]():       texts(KeyPartHeader, KeyPartCookie, KeyPartQueryParameter, KeyPartClaim, KeyPartRemoteAddress, KeyPartDescriptor, KeyPartPrincipal, KeyPartExpression),
	reflect.TypeFor[BlockOn]():           texts(BlockOnRefusal, BlockOnCommit),
	reflect.TypeFor[OnMissingKey]():      texts(OnMissingKeyShare, OnMissingKeySkip, OnMissingKeyDeny),
	reflect.TypeFor[Algorithm]():         texts(AlgorithmFixedWindow, AlgorithmSlidingLog, AlgorithmSlidingWindow, AlgorithmTokenBucket, AlgorithmGCRA, AlgorithmSuppressed, AlgorithmConcurrency),
	reflect.TypeFor[Counting]():          texts(CountingAdmitted, CountingAttempts),
	reflect.TypeFor[DenyWhen]():          texts(DenyWhenThresholdExceeded, DenyWhenThresholdReached),
	reflect.TypeFor[OverrideAction]():    texts(OverrideActionLimit, OverrideActionAllow, OverrideActionDeny),
	reflect.TypeFor[FailureMode]():       texts(FailureModeOpen, FailureModeClosed, FailureModeLocal),
	reflect.TypeFor[DenialContentType](): texts(DenialContentTypeHTML, DenialContentTypeText, DenialContentTypeJSON, DenialContentTypeProblem),
	reflect.TypeFor[DenialCode]():        texts(DenialCodeRateLimited, DenialCodeTooManyAttempts),
	reflect.TypeFor[CalendarPeriod]():    texts(CalendarPeriodHour, CalendarPeriodDay, CalendarPeriodWeek, CalendarPeriodMonth),
	reflect.TypeFor[Weekday]():           texts[Weekday]("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
	reflect.TypeFor[ExceptionAction]():   texts(ExceptionActionLimit, ExceptionActionAllow),
	reflect.TypeFor[AcceptedAction]():    texts(AcceptedActionLimit, AcceptedActionAllow, AcceptedActionNone),
}

func texts[T ~string](values ...T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}
