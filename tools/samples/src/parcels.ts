/** The rules of the sample parcel service, in memory. */

/** A parcel as the API shows it. */
export interface Parcel {
  id: string;
  status: 'announced' | 'in_transit' | 'delivered';
  to: { name: string; street?: string; city: string };
  weight_kg: number;
  note?: string | null;
}

/** An answer: status, and the JSON body if there is one. */
export interface Answer {
  status: number;
  body?: unknown;
}

const PRICE_PER_KG = 1.9;
const BASE_PRICE = 3.5;

/** A handful of parcels that can be listed, changed and cancelled. */
export class Parcels {
  private readonly parcels = new Map<string, Parcel>();
  private next = 1_004;

  constructor() {
    const seed: Parcel[] = [
      { id: 'P-1001', status: 'in_transit', to: { name: 'Ada', city: 'London' }, weight_kg: 1.2 },
      { id: 'P-1002', status: 'delivered', to: { name: 'Grace', city: 'New York' }, weight_kg: 0.4 },
      { id: 'P-1003', status: 'announced', to: { name: 'Katherine', city: 'Hampton' }, weight_kg: 3 },
    ];
    for (const parcel of seed) this.parcels.set(parcel.id, parcel);
  }

  list(status: readonly string[], limit: number): Answer {
    const all = [...this.parcels.values()].toReversed();
    return {
      status: 200,
      body: all.filter((one) => status.length === 0 || status.includes(one.status)).slice(0, limit),
    };
  }

  get(id: string): Answer {
    const parcel = this.parcels.get(id);
    return parcel ? { status: 200, body: parcel } : missing(id);
  }

  create(input: Partial<Parcel> | undefined): Answer {
    if (!input?.to?.name || !input.to.city || !(Number(input.weight_kg) > 0)) {
      return { status: 422, body: { error: 'to.name, to.city and a positive weight_kg are needed' } };
    }
    const parcel: Parcel = { ...input, id: `P-${this.next++}`, status: 'announced' } as Parcel;
    this.parcels.set(parcel.id, parcel);
    return { status: 201, body: parcel };
  }

  cancel(id: string): Answer {
    const parcel = this.parcels.get(id);
    if (!parcel) return missing(id);
    if (parcel.status !== 'announced') return { status: 409, body: { error: `${id} is ${parcel.status}` } };
    this.parcels.delete(id);
    return { status: 204 };
  }

  move(id: string, to: Parcel['to'] | undefined): Answer {
    const parcel = this.parcels.get(id);
    if (!parcel) return missing(id);
    if (!to?.name || !to.city) return { status: 422, body: { error: 'name and city are needed' } };
    parcel.to = to;
    return { status: 200, body: parcel };
  }

  quote(weightKg: number, size: readonly number[], currency: string): Answer {
    if (!(weightKg > 0)) return { status: 422, body: { error: 'weight_kg has to be positive' } };
    const bulk = size.length === 3 ? size.reduce((product, edge) => product * edge, 1) / 50_000 : 0;
    const price = BASE_PRICE + PRICE_PER_KG * weightKg + bulk;
    return { status: 200, body: { price: Math.round(price * 100) / 100, currency, days: weightKg > 2 ? 3 : 2 } };
  }
}

function missing(id: string): Answer {
  return { status: 404, body: { error: `There is no parcel ${id}` } };
}
