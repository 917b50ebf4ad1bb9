! SPDX-License-Identifier: BSD-3-Clause
!
! examples/halo/jacobi.f90: Jacobi's iteration for the 5-point Laplacian on n * n points, cut into
! boxes. Each rank computes its inner points while the exchange is under way. The program compares
! the result with that of one process.
program jacobi
  use mpi
  use hk_halo
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: n = 48, steps = 60
  integer :: cart, rank, ranks, dims(2), at(2), lo(2), hi(2), own(2), ierr, t, d, bad, all_bad
  double precision, allocatable, target :: u(:, :), v(:, :)
  double precision, allocatable :: one(:, :), other(:, :)
  type(hk_halo_t) :: h

  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  dims = 0
  call MPI_Dims_create(ranks, 2, dims, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., cart, ierr)
  call MPI_Comm_rank(cart, rank, ierr)
  call MPI_Cart_coords(cart, rank, 2, at, ierr)
  do d = 1, 2
    lo(d) = at(d) * n / dims(d) + 1
    hi(d) = (at(d) + 1) * n / dims(d)
  end do
  own = hi - lo + 1
  allocate (u(0:own(1) + 1, 0:own(2) + 1), v(0:own(1) + 1, 0:own(2) + 1))
  u = 0
  v = 0
  call fill(u, lo)

  call hk_halo_cart(cart, own, [1, 1], HK_HALO_STAR, [c_loc(u)], MPI_DOUBLE_PRECISION, h, ierr)
  if (ierr /= 0) call give_up()
  do t = 1, steps
    call hk_halo_put(h, ierr)
    if (ierr /= 0) call give_up()
    call sweep(u, v, 2, own(1) - 1, 2, own(2) - 1)
    call hk_halo_wait(h, ierr)
    if (ierr /= 0) call give_up()
    call sweep(u, v, 1, 1, 1, own(2))
    call sweep(u, v, own(1), own(1), 1, own(2))
    call sweep(u, v, 2, own(1) - 1, 1, 1)
    call sweep(u, v, 2, own(1) - 1, own(2), own(2))
    u(1:own(1), 1:own(2)) = v(1:own(1), 1:own(2))
  end do
  call hk_halo_free(h, ierr)

  allocate (one(0:n + 1, 0:n + 1), other(0:n + 1, 0:n + 1))
  one = 0
  other = 0
  call fill(one, [1, 1])
  do t = 1, steps
    call sweep(one, other, 1, n, 1, n)
    one(1:n, 1:n) = other(1:n, 1:n)
  end do
  bad = count(abs(u(1:own(1), 1:own(2)) - one(lo(1):hi(1), lo(2):hi(2))) > 0)
  call MPI_Reduce(bad, all_bad, 1, MPI_INTEGER, MPI_SUM, 0, cart, ierr)
  if (rank == 0) print '(a, i0, a, i0, a)', &
    merge('PASS', 'FAIL', all_bad == 0) // ' jacobi: ', ranks, ' ranks, ', &
    all_bad, ' points differ from those of one process'
  call MPI_Finalize(ierr)

contains

  subroutine fill(a, first)
    double precision, intent(inout) :: a(0:, 0:)
    integer, intent(in) :: first(2)
    integer :: i, j
    do j = 1, ubound(a, 2) - 1
      do i = 1, ubound(a, 1) - 1
        a(i, j) = mod((first(1) + i) * 31 + (first(2) + j) * 17, 101)
      end do
    end do
  end subroutine

  subroutine sweep(a, b, i1, i2, j1, j2)
    double precision, intent(in) :: a(0:, 0:)
    double precision, intent(inout) :: b(0:, 0:)
    integer, intent(in) :: i1, i2, j1, j2
    integer :: i, j
    do j = j1, j2
      do i = i1, i2
        b(i, j) = 0.25d0 * ((a(i - 1, j) + a(i + 1, j)) + (a(i, j - 1) + a(i, j + 1)))
      end do
    end do
  end subroutine

  subroutine give_up()
    print '(a)', 'jacobi: ' // hk_halo_error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine

end program
