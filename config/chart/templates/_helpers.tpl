{{/* What config has, in the namespace of the release. */}}
{{- define "rrpool.file" -}}
{{- $root := index . 0 -}}
{{- if has $root.Release.Namespace (list "default" "kube-system") -}}
{{- fail (printf "--namespace %s: rrpool has Roles of its own in default and in kube-system: install it into a namespace of its own, such as rrpool-system" $root.Release.Namespace) -}}
{{- end -}}
{{- $root.Files.Get (printf "files/%s.yaml" (index . 1)) | replace "rrpool-system" $root.Release.Namespace -}}
{{- end -}}

{{/* The object of a kind in files/manager.yaml, which has one of each. */}}
{{- define "rrpool.object" -}}
{{- $kind := index . 1 -}}
{{- range include "rrpool.file" (list (index . 0) "manager") | splitList "\n---\n" -}}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind -}}
{{- toYaml $object -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rrpool.image" -}}
{{- $image := .Values.image -}}
{{- if not (or (kindIs "invalid" $image.tag) (kindIs "string" $image.tag)) -}}
{{- fail (printf "image.tag: %v is a number to YAML, which may lose digits: put it into quotes, or use --set-string" $image.tag) -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}
