{{/* Prefix of objects outside the namespace: PriorityClasses of two releases in one cluster must differ. */}}
{{- define "toolfleet.name" -}}
{{- $release := .Release.Name -}}
{{- eq $release .Release.Namespace | ternary $release (printf "%s-%s" .Release.Namespace $release) -}}
{{- end -}}

{{/* Values of a class as JSON, with those of `default` that it does not set. Context: root, name. */}}
{{- define "toolfleet.class" -}}
{{- $fields := deepCopy (get .root.Values.classes "default" | default dict) -}}
{{- range $key, $value := get .root.Values.classes .name | default dict -}}
{{- $_ := set $fields $key $value -}}
{{- end -}}
{{- toJson $fields -}}
{{- end -}}

{{/* A bound of an autoscaler. Context: root, name of the class, bound, value without a setting. */}}
{{- define "toolfleet.bound" -}}
{{- $replicas := get (include "toolfleet.class" . | fromJson) "replicas" -}}
{{- if kindIs "map" $replicas }}{{ get $replicas .bound }}{{ else }}{{ .fallback }}{{ end -}}
{{- end -}}

{{/* The Deployment of a class with its values. Context: root, name, scaled (whether an autoscaler sizes it). */}}
{{- define "toolfleet.deployment" -}}
{{- $fields := include "toolfleet.class" . | fromJson -}}
{{- $deployment := include (printf "toolfleet.deployment.%s" .name) .root | fromYaml -}}
{{- $template := $deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- if hasKey $fields "replicas" -}}
{{- if and .scaled (not (kindIs "map" $fields.replicas)) -}}
{{- fail (printf "classes.%s.replicas: an autoscaler sizes this class; set { min, max }" .name) -}}
{{- else if and (not .scaled) (kindIs "map" $fields.replicas) -}}
{{- fail (printf "classes.%s.replicas: no autoscaler sizes this class; set a number" .name) -}}
{{- else if not .scaled -}}
{{- $_ := set $deployment.spec "replicas" $fields.replicas -}}
{{- end -}}
{{- end -}}
{{- $env := list -}}
{{- range $key, $value := $fields.env -}}
{{- $env = append $env (dict "name" $key "value" $value) -}}
{{- end -}}
{{- if $fields.toolSecrets -}}
{{- $sources := list -}}
{{- range $fields.toolSecrets -}}
{{- $env = append $env (dict "name" (printf "%s_FILE" .env) "value" (printf "/run/secrets/tools/%s" .env)) -}}
{{- $sources = append $sources (dict "secret" (dict "name" .secret "items" (list (dict "key" .key "path" .env)))) -}}
{{- end -}}
{{- $volume := dict "name" "tool-secrets" "projected" (dict "defaultMode" 288 "sources" $sources) -}}
{{- $mount := dict "name" "tool-secrets" "mountPath" "/run/secrets/tools" "readOnly" true -}}
{{- $_ := set $pod "volumes" (prepend $pod.volumes $volume) -}}
{{- $_ := set $container "volumeMounts" (prepend $container.volumeMounts $mount) -}}
{{- end -}}
{{- $set := dict -}}
{{- range $env }}{{ $_ := set $set .name true }}{{ end -}}
{{- range $container.env }}{{ if not (hasKey $set .name) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- $_ := set $container "env" $env -}}
{{- $_ := set $container "resources" (mergeOverwrite $container.resources ($fields.resources | default dict)) -}}
{{- range list "nodeSelector" "tolerations" "affinity" "imagePullSecrets" -}}
{{- if hasKey $fields . }}{{ $_ := set $pod . (get $fields .) }}{{ end -}}
{{- end -}}
{{- $_ := set $template.metadata "annotations" (merge ($template.metadata.annotations | default dict) ($fields.podAnnotations | default dict)) -}}
{{- toYaml $deployment -}}
{{- end -}}
