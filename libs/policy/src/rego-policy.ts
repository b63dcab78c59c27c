import { createHash } from 'node:crypto';
import {
  type Evaluation,
  isArray,
  isObject,
  objectKeys,
  type Node,
  type Place,
  parseModule,
  type PlainObject,
  Program,
  RegoError,
  RegoSet,
  type Run,
  type RegoValue,
  formatValue,
  toJson,
} from '@toolfleet/rego';
import type { Clock } from '@toolfleet/resilience';
import { readAsked } from './asked.js';
import { PolicyEngine, UnknownFact, type PolicyDecision, type PolicyInput } from './policy-engine.js';

/** One file of a policy. */
export interface PolicyFile {
  name: string;
  text: string;
}

/** File that rules read as `data`. */
const DATA_FILE = 'data.json';
/** Fields of `PolicyInput`. Those below `arguments` depend on the tool. */
const INPUT_FIELDS: ReadonlyMap<string, ReadonlySet<string> | undefined> = new Map([
  ['tool', new Set<string>()],
  ['user', new Set(['id', 'tenant', 'roles', 'via'])],
  ['call', new Set(['parent', 'toolset'])],
  ['arguments', undefined],
  ...['action', 'origin', 'entry_point', 'session_id', 'category', 'dangerous', 'dry_run'].map(
    (name) => [name, new Set<string>()] as const,
  ),
  ['tags', undefined],
]);
/** Package of the rules `deny` and `ask`. */
const PACKAGE = ['tools'];
/**
 * Limit on the steps (elements visited, rules and functions run) of one decision: 0.1 to 0.5 s on a busy machine. The shipped
 * policy needs dozens. It protects the gateway from rules that take quadratic time in the callers' arguments.
 */
const MAX_STEPS = 250_000;
/** Decisions that are remembered. */
const MAX_DECIDED = 5_000;
/** Places of rules that a decision names. */
const MAX_PLACES = 10;

/** A compiled policy. It never changes; `ReloadingPolicy` replaces it. */
export class RegoPolicy extends PolicyEngine {
  /** SHA-256 of the names and texts of all files, sorted by name. */
  readonly hash: string;
  private readonly program: Program;
  private readonly data: RegoValue;
  private readonly deny: Node;
  /** Undefined if the policy has no `ask` rule. */
  private readonly ask: Node | undefined;
  /** By the facts of a call without its arguments; null: the decision depends on the arguments or the time. */
  readonly #decided = new Map<string, PolicyDecision | null>();

  /** @throws RegoError with file, line and column for invalid or unsupported Rego, and when there is no `deny` rule */
  constructor(
    files: readonly PolicyFile[],
    private readonly clock: Clock,
  ) {
    super();
    const sorted = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const rules = sorted.filter(({ name }) => name !== DATA_FILE);
    this.data = readData(sorted.find(({ name }) => name === DATA_FILE));
    const known = { data: this.data, input: INPUT_FIELDS };
    this.program = new Program(
      rules.map(({ name, text }) => parseModule(text, name)),
      { known },
    );
    const deny = this.program.find([...PACKAGE, 'deny']);
    if (!deny?.hasValue || deny.isFunction)
      throw new RegoError('compile_error', `no rule data.${PACKAGE.join('.')}.deny`);
    this.deny = deny;
    const ask = this.program.find([...PACKAGE, 'ask']);
    if (ask?.isFunction) throw new RegoError('compile_error', `data.${PACKAGE.join('.')}.ask is a function`);
    this.ask = ask?.hasValue ? ask : undefined;
    this.hash = createHash('sha256')
      .update(JSON.stringify(sorted.map(({ name, text }) => [name, text])))
      .digest('hex');
  }

  /**
   * Never throws. If the evaluation fails, the call is denied with the reason. A decision that read neither arguments nor the time is the
   * same for every call with the other facts.
   */
  override decide(input: PolicyInput): PolicyDecision {
    const facts = JSON.stringify({ ...input, arguments: undefined });
    const known = this.#decided.get(facts);
    if (known) return known;
    if (known === null) return this.#evaluate(input, () => this.clock.now());
    let isOfCall = false;
    const now = (): number => {
      isOfCall = true;
      return this.clock.now();
    };
    const decision = this.#evaluate(
      {
        ...input,
        get arguments() {
          isOfCall = true;
          return input.arguments;
        },
      },
      now,
    );
    if (this.#decided.size >= MAX_DECIDED) this.#decided.clear();
    this.#decided.set(facts, isOfCall ? null : decision);
    return decision;
  }

  #evaluate(input: PolicyInput, nowMs: () => number): PolicyDecision {
    return this.#decide(input, new DecisionRun(nowMs), (node, evaluation, added) =>
      toMembers(this.program.members(node, evaluation, { added }) ?? evaluation.evaluate(node)),
    );
  }

  /**
   * Decides on a call of the past with getters in its input that throw `UnknownFact`. A rule that needs no such fact decides alone;
   * the list of messages may then lack others'.
   * @param nowMs the instant of the call; it may throw `UnknownFact`, too
   * @throws UnknownFact when the decision depends on a fact that is not known
   */
  judge(input: PolicyInput, nowMs: () => number): PolicyDecision {
    return this.#decide(input, new DecisionRun(nowMs), (node, evaluation, added) => {
      let unknown: UnknownFact | undefined;
      const isUnknown = (error: unknown): boolean => {
        if (!(error instanceof UnknownFact)) return false;
        unknown ??= error;
        return true;
      };
      const members = toMembers(
        this.program.members(node, evaluation, { added, isSkipped: isUnknown }) ?? evaluation.evaluate(node),
      );
      if (members.length === 0 && unknown) throw unknown;
      return members;
    });
  }

  #decide(
    input: PolicyInput,
    run: DecisionRun,
    membersOf: (rule: Node, evaluation: Evaluation, added: (place: Place) => void) => readonly RegoValue[],
  ): PolicyDecision {
    const places: string[] = [];
    const added = ({ file, line }: Place): void => {
      if (places.length < MAX_PLACES) places.push(`${file}:${line}`);
    };
    const decided = (decision: PolicyDecision): PolicyDecision =>
      places.length > 0 ? { ...decision, rules: places } : decision;
    try {
      const evaluation = this.program.start(run, input as unknown as PlainObject, this.data);
      const deny = membersOf(this.deny, evaluation, added).map(toMessage);
      if (deny.length > 0 || !this.ask) return decided({ deny });
      return decided({ deny, ...readAsked(membersOf(this.ask, evaluation, added).map(toJson), toMessage) });
    } catch (error) {
      if (error instanceof UnknownFact) throw error;
      // A stack overflow on deeply nested arguments.
      const isOverflow = error instanceof RangeError;
      const reason = isOverflow ? 'the arguments are nested too deeply' : (error as Error).message;
      return { deny: [`the policy could not be evaluated: ${reason}`] };
    }
  }
}

function readData(file: PolicyFile | undefined): RegoValue {
  if (!file) return {};
  try {
    const data = JSON.parse(file.text) as RegoValue;
    if (isObject(data)) return data;
  } catch {
    // Thrown below without an excerpt, because the file may contain personal data.
  }
  throw new RegoError('parse_error', `${DATA_FILE} is not a JSON object`);
}

class DecisionRun implements Run {
  readonly strict = true;
  private left = MAX_STEPS;

  private now: number | undefined;

  constructor(private readonly readNow: () => number) {}

  /** The same for the whole decision. */
  get nowMs(): number {
    return (this.now ??= this.readNow());
  }

  spend(units: number): void {
    this.left -= units;
    if (this.left < 0) throw new RegoError('limit', 'the decision takes too many steps');
  }
}

/** The members of a rule: elements of a set or array, or the keys of an object. `deny := true` denies too. */
function toMembers(value: RegoValue | undefined): readonly RegoValue[] {
  if (value === undefined || value === false) return [];
  if (value === true) return ['denied'];
  if (value instanceof RegoSet) return [...value.values()];
  return isArray(value) ? value : isObject(value) ? objectKeys(value) : [value];
}

const toMessage = (member: unknown): string => (typeof member === 'string' ? member : formatValue(member as RegoValue));
