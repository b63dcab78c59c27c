/** L01 to L16 and L52: privileges and resources of pods. */
import { bytes } from './model.mjs';

/** Memory of python-sandbox in addition to its guests: the service, the host process and the interpreter's shared parts. */
const SANDBOX_BASE = 400 * 2 ** 20;

/** Part of its container that Redis may fill; it needs the rest for buffers and while it rewrites its file. */
const REDIS_SHARE = 0.7;

const perWorkload = (check) => (model) =>
  model.workloads.flatMap((workload) => check(workload, model).map((fault) => `${workload.name}: ${fault}`));
const perContainer = (check) =>
  perWorkload((workload) => workload.containers.flatMap((container) => check(container, workload)));
const when = (condition, fault) => (condition ? [fault] : []);

export const POD_RULES = {
  L01: perWorkload(({ pod }) => when(pod.securityContext?.runAsNonRoot !== true, 'runAsNonRoot is not true')),
  L02: perWorkload(({ pod: { securityContext: context = {} } }) => [
    ...when(!(context.runAsUser >= 10_000), 'runAsUser is below 10000'),
    ...when(!(context.runAsGroup >= 10_000), 'runAsGroup is below 10000'),
  ]),
  L03: perContainer(({ securityContext }) =>
    when(securityContext?.readOnlyRootFilesystem !== true, 'the root file system is writable'),
  ),
  L04: perContainer(({ securityContext: context = {} }) => [
    ...when(!context.capabilities?.drop?.includes('ALL'), 'capabilities are not dropped'),
    ...when((context.capabilities?.add ?? []).length > 0, 'capabilities are added'),
    ...when(context.allowPrivilegeEscalation !== false, 'allowPrivilegeEscalation is not false'),
  ]),
  L05: perWorkload(({ pod }) =>
    when(pod.securityContext?.seccompProfile?.type !== 'RuntimeDefault', 'seccomp is not RuntimeDefault'),
  ),
  L06: perWorkload(({ pod, containers }) => [
    ...when(
      containers.some(({ securityContext }) => securityContext?.privileged),
      'a container is privileged',
    ),
    ...when(pod.hostNetwork || pod.hostPID || pod.hostIPC, 'a host namespace is used'),
    ...when(
      (pod.volumes ?? []).some((volume) => volume.hostPath),
      'a hostPath is mounted',
    ),
  ]),
  L07: (model) => [
    ...model.workloads
      .filter(({ pod }) => pod.automountServiceAccountToken !== false)
      .map(({ name }) => `${name}: the pod mounts a service account token`),
    ...model
      .of('ServiceAccount')
      .filter((account) => account.automountServiceAccountToken !== false)
      .map(({ metadata }) => `${metadata.name}: the account mounts its token`),
  ],
  L08: perWorkload(({ pod }) => when(pod.enableServiceLinks !== false, 'enableServiceLinks is not false')),
  L09: perWorkload(({ pod, name }, model) => {
    const account = pod.serviceAccountName;
    const sharers = model.workloads.filter((other) => other.pod.serviceAccountName === account);
    const exists = model.of('ServiceAccount').some(({ metadata }) => metadata.name === account);
    return [
      ...when(!account || account === 'default' || !exists, 'has no service account of its own'),
      ...when(exists && sharers.length > 1, `shares the account ${account} with others than ${name}`),
    ];
  }),
  L10: perContainer(({ resources }) => [
    ...when(!resources?.requests?.cpu, 'no CPU request'),
    ...when(!resources?.requests?.memory, 'no memory request'),
  ]),
  L11: perContainer(({ resources }) => when(!resources?.limits?.memory, 'no memory limit')),
  L12: perWorkload(({ name, containers }) =>
    when(
      name === 'gateway' && containers.some(({ resources }) => resources?.limits?.cpu),
      'a CPU limit would stall every caller at once',
    ),
  ),
  L13: perWorkload(({ name, containers }) =>
    when(
      name === 'python-sandbox' &&
        containers.some(({ resources }) => resources?.limits?.cpu !== resources?.requests?.cpu),
      'CPU limit and request differ',
    ),
  ),
  L14: perContainer(({ resources }) => [
    ...when(!resources?.requests?.['ephemeral-storage'], 'no ephemeral-storage request'),
    ...when(!resources?.limits?.['ephemeral-storage'], 'no ephemeral-storage limit'),
  ]),
  L15: perWorkload(({ pod, containers }) => {
    const dirs = (pod.volumes ?? []).filter((volume) => volume.emptyDir);
    const inMemory = dirs
      .filter(({ emptyDir }) => emptyDir.medium === 'Memory')
      .reduce((sum, { emptyDir }) => sum + bytes(emptyDir.sizeLimit ?? 0), 0);
    return [
      ...dirs.filter(({ emptyDir }) => !emptyDir.sizeLimit).map(({ name }) => `emptyDir ${name} has no sizeLimit`),
      ...when(inMemory >= bytes(containers[0].resources?.limits?.memory ?? 0), 'memory-backed volumes fill the limit'),
    ];
  }),
  L52: perContainer(({ image, env = [], resources }) => {
    if (!/^(?:.*\/)?redis[:@]/.test(image)) return [];
    const [, megabytes] = /^(\d+)mb$/.exec(env.find(({ name }) => name === 'REDIS_MAXMEMORY')?.value ?? '') ?? [];
    const fits = Number(megabytes) * 2 ** 20 <= bytes(resources?.limits?.memory ?? 0) * REDIS_SHARE;
    return when(!fits, 'REDIS_MAXMEMORY is not set to at most 70 % of the memory limit');
  }),
  L16: perWorkload(({ name, env, containers }) => {
    if (name !== 'python-sandbox') return [];
    const slots = Number(env.get('PYTHON_SANDBOX_THREADS')?.value ?? Number.NaN);
    const cap = Number(env.get('WASI_MEMORY_LIMIT_MB')?.value ?? 512) * 2 ** 20;
    const fits = slots * cap + SANDBOX_BASE < bytes(containers[0].resources?.limits?.memory);
    return when(!fits, 'guests of all slots do not fit into the memory limit');
  }),
};
