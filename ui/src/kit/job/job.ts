import type { Tone } from '../state/Notice'

type Store = Pick<Storage, 'getItem' | 'setItem'>

/**
 * When this browser first saw a run of a root job. The gateway's clock may be off, so its times do not tell how long
 * someone has waited. Survives a reload.
 */
export function firstSeen(job: string, id: string, storage: Store, now: number): number {
  try {
    const [seen, at] = (storage.getItem(`gateway.${job}`) ?? '').split(' ')
    if (seen === id && Number(at) > 0) return Number(at)
    storage.setItem(`gateway.${job}`, `${id} ${now}`)
  } catch {
    // Without storage, a reload starts the wait again.
  }
  return now
}

export type JobState = 'none' | 'running' | 'done' | 'refused' | 'taken_back' | 'stuck'

export const jobTone: Record<JobState, Tone> = {
  none: 'off',
  running: 'warn',
  done: 'live',
  refused: 'warn',
  taken_back: 'warn',
  stuck: 'bad',
}

export interface JobStep {
  name: string
  state: 'running' | 'done' | 'failed' | 'interrupted'
  began_at: string
  ended_at: string | null
  output: string
  error: string
}

export const stepTone: Record<JobStep['state'], Tone> = {
  running: 'warn',
  done: 'live',
  failed: 'bad',
  interrupted: 'off',
}
