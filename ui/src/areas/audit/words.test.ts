import { readFileSync } from 'node:fs'
import { beforeAll, expect, it } from 'vitest'
import type { AuditEntry } from '../../api/types'
import './texts'
import { addressOf, deedOf, deedsOfAll, isLogin, linesOf } from './words'

let number = 0
const entry = (action: string, details?: object) => ({ id: String(++number), action, details }) as unknown as AuditEntry

let entries: AuditEntry[]
beforeAll(() => {
  entries = [
    entry('auth.login.success', { remote_ip: '192.0.2.7' }),
    entry('proxy.domain.create', { change_set: 'a' }),
    entry('proxy.domain.create', { change_set: 'a' }),
    entry('proxy.backend.create', { change_set: 'a' }),
    entry('firewall.rule.update', { change_set: 'b' }),
  ]
})

it('has a text for each action of the API', () => {
  const document = readFileSync('../api/openapi.json', 'utf8')
  const codes = [...document.matchAll(/"x-audit": "([^"<]+)"/g)].map(([, code]) => code as string)
  expect(codes).toContain('draft.add')
  expect(codes.filter((code) => deedOf(code) === code)).toEqual([])
})

it('has a text for what the gateway does on its own', () => {
  const codes = [
    'audit.prune',
    'auth.login.failed',
    'backup.restored',
    'certificate.failed',
    'certificate.issued',
    'cluster.certificate.renew',
    'cluster.fence',
    'cluster.join',
    'cluster.left',
    'cluster.master-key',
    'cluster.register',
    'cluster.resume',
    'cluster.rolling-update.end',
    'cluster.rolling-update.error',
    'cluster.split-brain',
    'cluster.step-down',
    'cluster.sync',
    'ids.decision.undo',
  ]
  expect(codes.filter((code) => deedOf(code) === code)).toEqual([])
})

it('describes an action in words', () => {
  expect(['firewall.rule.create', 'dns.settings.update', 'auth.login.failed', 'no.such'].map(deedOf)).toEqual([
    'Firewall rule created',
    'DNS settings changed',
    'Login failed',
    'no.such',
  ])
})

it('makes one line of a change set', () => {
  expect(linesOf(entries).map((line) => line.entries.length)).toEqual([1, 3, 1])
  expect(deedsOfAll(entries.slice(1, 4))).toBe('2 domains created, 1 backend created')
})

it('recognises logins, and where a request came from', () => {
  expect(entries.map(isLogin)).toEqual([true, false, false, false, false])
  expect(addressOf(entries[0] as AuditEntry)).toBe('192.0.2.7')
  expect(addressOf(entry('jobs.run'))).toBeUndefined()
})
