import type { Milliseconds } from '@toolfleet/contracts';
import type { RouteAnswer } from '@toolfleet/contracts/resources';
import type { Clock } from '@toolfleet/resilience';
import type { KeyRing } from '@toolfleet/service';
import type { IdentityDb } from './identity-tables.js';

/** Sealed columns: the key of their row, and the seal's context of a value. */
const SEALED = [
  ['user_grant', 'grant_id', 'grant'],
  ['connect_attempt', 'digest', 'attempt'],
  ['oauth_record', 'digest', 'oauth'],
] as const;
const BATCH = 200;

type Resealed = RouteAnswer<'POST /api/v1/connections/reseal'>;

/** The replacement of keys: put a new one first, seal all values again, and remove the old one. */
export class KeyChange {
  constructor(
    private readonly db: IdentityDb,
    private readonly keys: KeyRing,
    private readonly clock: Clock,
    /** Longest work of one request. */
    private readonly turnMs: Milliseconds,
  ) {}

  /** Seals values with the first key again. One that changes meanwhile is sealed with it anyway. @throws Error when a key is missing */
  async reseal(): Promise<Resealed> {
    const until = this.clock.monotonic() + this.turnMs;
    const done: Resealed = { resealed: 0, left: 0 };
    for (const [table, key, place] of SEALED) {
      const [named, id] = [table as 'user_grant', key as 'grant_id'];
      const others = () => this.db.selectFrom(named).where('sealed', 'not like', `${this.keys.current}.%`);
      while (this.clock.monotonic() < until) {
        const rows = await others().select([id, 'sealed']).limit(BATCH).execute();
        for (const { [id]: name, sealed } of rows) {
          const renewed = this.keys.seal(this.keys.open(sealed, `${place}/${name}`), `${place}/${name}`);
          const update = this.db.updateTable(named).set({ sealed: renewed });
          await update.where(id, '=', name).where('sealed', '=', sealed).execute();
        }
        done.resealed += rows.length;
        if (rows.length < BATCH) break;
      }
      const counted = others().select((row) => row.fn.countAll().as('count'));
      done.left += Number((await counted.executeTakeFirstOrThrow()).count);
    }
    return done;
  }
}
