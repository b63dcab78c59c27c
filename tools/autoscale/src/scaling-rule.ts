/**
 * What KEDA's ScaledObject and the HorizontalPodAutoscaler behind it do with a number
 * (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details): the one rule that both the
 * simulator and the local autoscaler follow. Pure: times are handed in.
 */

/** The fields of deploy/k8s/components/keda that decide. */
export interface ScalingRule {
  /** Which jobs of the queue count: `waiting` alone looks idle while workers are busy. */
  counts: 'waiting' | 'waiting and running';
  /** Jobs per pod (AverageValue). */
  target: number;
  /** A pod's share is raised as well while the oldest job is older than this (Value). */
  targetAgeMs?: number;
  min: number;
  max: number;
  /** Scaling up adds at most this share of the pods, or `upPods` if that is more, in each `upPeriodMs`. */
  upShare: number;
  upPods: number;
  upPeriodMs: number;
  /** Scaling down follows the highest wish of this long. */
  steadyMs: number;
  /** Scaling down takes at most so many pods in each `downPeriodMs`. */
  downPods: number;
  downPeriodMs: number;
  /** How often the autoscaler looks. */
  syncMs: number;
}

/** What deploy/k8s sets for python-sandbox. */
export const PRODUCTION_RULE: ScalingRule = {
  counts: 'waiting and running',
  target: 1.6,
  targetAgeMs: 5_000,
  min: 2,
  max: 40,
  upShare: 1,
  upPods: 4,
  upPeriodMs: 15_000,
  steadyMs: 300_000,
  downPods: 1,
  downPeriodMs: 60_000,
  syncMs: 15_000,
};

/** The autoscaler's view of a queue. */
export interface QueueLook {
  waiting: number;
  running: number;
  oldestAgeMs: number;
}

/** Kubernetes leaves the pods alone while the number is within 10 % of its target. */
const TOLERANCE = 0.1;

/** Decides the number of pods at each sync; remembers the history that the stabilisation window and the speed limits need. */
export class PodCount {
  #wishes: { at: number; pods: number }[] = [];
  #changes: { at: number; by: number }[] = [];

  constructor(private readonly rule: ScalingRule) {}

  /** @returns pods wanted from `now` (ms) on, when `pods` were wanted until now */
  next(now: number, pods: number, look: QueueLook): number {
    const { min, max, steadyMs } = this.rule;
    const wish = clamp(wishOf(this.rule, pods, look), min, max);
    this.#wishes = [...this.#wishes.filter(({ at }) => at > now - steadyMs), { at: now, pods: wish }];
    const steady = Math.max(...this.#wishes.map((past) => past.pods));
    const wanted = wish > pods ? Math.min(wish, this.#mostUp(now, pods)) : Math.min(pods, steady);
    const next = clamp(wanted < pods ? Math.max(wanted, this.#mostDown(now, pods)) : wanted, min, max);
    if (next !== pods) this.#changes.push({ at: now, by: next - pods });
    return next;
  }

  #mostUp(now: number, pods: number): number {
    const { upShare, upPods, upPeriodMs } = this.rule;
    const before = this.#before(now - upPeriodMs, pods);
    return Math.max(Math.ceil(before * (1 + upShare)), before + upPods);
  }

  #mostDown(now: number, pods: number): number {
    return this.#before(now - this.rule.downPeriodMs, pods) - this.rule.downPods;
  }

  /** Pods at the beginning of a period. */
  #before(since: number, pods: number): number {
    return this.#changes.filter(({ at }) => at > since).reduce((count, { by }) => count - by, pods);
  }
}

/** desired = ceil(metric / target); with several metrics the highest counts. */
function wishOf(rule: ScalingRule, pods: number, look: QueueLook): number {
  const jobs = look.waiting + (rule.counts === 'waiting' ? 0 : look.running);
  const byJobs = tolerated(jobs / (rule.target * pods), pods, Math.ceil(jobs / rule.target));
  if (rule.targetAgeMs === undefined) return byJobs;
  const tooOld = look.oldestAgeMs / rule.targetAgeMs;
  return Math.max(byJobs, tolerated(tooOld, pods, Math.ceil(pods * tooOld)));
}

const tolerated = (ratio: number, pods: number, wish: number): number =>
  Math.abs(ratio - 1) <= TOLERANCE ? pods : wish;

const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value));
